// Fixes what a report of a month covers, and warns when that month is not final: its figures may still change.

import { periodOf, type Stage, stageOf } from '../../core/month.ts'
import type { FixedPeriod } from '../../core/report-period.ts'
import type { TenantFilter } from '../../store/partners.ts'
import type { Store } from '../../store/store.ts'
import type { Cli } from '../context.ts'
import { note, warn } from '../terminal/print.ts'
import { timeFor } from './time-of-report.ts'

/** What a report of a month covers, and the state of that month: one that is final is over, whatever the clock says. */
export type Covered = FixedPeriod & { stage: Stage }

/** Fixes what a report of a month covers. Warns of a month that is over and not final. */
export async function fixPeriodFor(
  cli: Cli,
  store: Store,
  { month, filter }: { month: string; filter: TenantFilter },
): Promise<Covered> {
  const { slug, environment } = filter
  const tenant = slug !== null && environment !== null ? await store.findTenant(slug, environment) : null
  const period = await store.fixPeriod(periodOf(month), tenant)
  if (period.final) return { ...period, stage: 'over' }
  const stage = stageOf(periodOf(month), await timeFor(store, filter))
  // In a database that has moved, nothing becomes final any more: the month is in the one that it moved to.
  if (stage === 'over') warn(cli, (await store.readSeal()) ? notFinalHere(month) : notFinal(month))
  return { ...period, stage }
}

/** Remarks on a month whose figures will change, for results that do not say it themselves. */
export function noteStage(cli: Cli, { month, stage }: Covered): void {
  if (stage === 'ahead') note(cli, `${month} has not begun.`)
  if (stage === 'running') note(cli, `${month} is not over yet: these are its figures so far.`)
}

const notFinal = (month: string): string =>
  `${month} is over by this clock alone, so its figures are not final: no tick, trade or change by an operator has been recorded ` +
  'since its end. Run tranche tick, then ask again.'

const notFinalHere = (month: string): string =>
  `${month} was not over when this database moved, so its figures here are not final: ask the database that it moved to.`
