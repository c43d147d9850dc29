// plan bring-back: moves windows that a clock that was ahead rolled into the future back to their place on the grid.

import { clockDisputed } from '../../core/clock-dispute.ts'
import { counted } from '../../core/counted.ts'
import { formatInstant } from '../../core/instant.ts'
import { formatUsd } from '../../core/money.ts'
import type { AuditEntry } from '../../store/audit.ts'
import type { PlanAhead } from '../../store/bring-back-windows.ts'
import type { TenantFilter } from '../../store/partners.ts'
import type { Store } from '../../store/store.ts'
import type { Cli } from '../context.ts'
import { auditEntry } from '../shared/audit-entry.ts'
import { partnerNamed } from '../shared/find-partner.ts'
import { confirmOnTerminal } from '../terminal/ask.ts'
import { print } from '../terminal/print.ts'
import { type Column, renderTable } from '../terminal/table.ts'

/** Plans looked for in one read, and brought back in one go: their commits are shared. */
const PAGE_PLANS = 500

/** Throws partner_not_found, and clock_disputed: while the clock is in doubt, no window has a known place. */
export async function bringBack(cli: Cli, filter: TenantFilter, dryRun: boolean): Promise<void> {
  if (!dryRun)
    await confirmOnTerminal(cli, 'Give every plan whose window was rolled ahead its present window?')
  await cli.withStore(async (store) => {
    if (filter.slug !== null) await partnerNamed(store, filter.slug)
    const { standing } = await store.readClock()
    if (standing) throw clockDisputed(standing)
    const rows: ReturnType<typeof rowJson>[] = []
    for await (const plans of pagesOf(store, filter)) {
      const moved = dryRun ? plans : await Promise.all(plans.map((plan) => moveBack(cli, store, plan)))
      rows.push(...moved.filter((plan) => plan !== null).map(rowJson))
    }
    const json = { dry_run: dryRun, brought_back: dryRun ? 0 : rows.length, plans: rows }
    const table = rows.length === 0 ? '' : `\n\n${await renderTable(COLUMNS, rows)}`
    const head = `${counted(rows.length, 'window')} ${dryRun ? 'to bring back' : 'brought back'}.`
    print(cli, json, () => head + table)
  })
}

async function* pagesOf(store: Store, filter: TenantFilter): AsyncGenerator<PlanAhead[]> {
  for (let after: number | null = 0; after !== null; ) {
    const { plans, cursor } = await store.listAhead(filter, { after, limit: PAGE_PLANS })
    yield plans
    after = cursor
  }
}

const moveBack = (cli: Cli, store: Store, { planId }: PlanAhead): Promise<PlanAhead | null> =>
  store.bringBack(planId, (plan): AuditEntry => {
    const { partner_slug, environment, partner_plan_id, ...detail } = rowJson(plan)
    return auditEntry(
      cli,
      'plan.bring-back',
      `${partner_slug} ${environment} plan ${partner_plan_id}`,
      detail,
    )
  })

const rowJson = ({ tenant, partnerPlanId, window, place }: PlanAhead) => ({
  partner_slug: tenant.partnerSlug,
  environment: tenant.environment,
  partner_plan_id: partnerPlanId,
  was_start: formatInstant(window.start),
  window_start: formatInstant(place.start),
  window_end: formatInstant(place.end),
  budget_usd: formatUsd(place.budget),
})

const COLUMNS: Column<ReturnType<typeof rowJson>>[] = [
  { title: 'PLAN', of: (row) => row.partner_plan_id },
  { title: 'PARTNER', of: (row) => `${row.partner_slug} ${row.environment}` },
  { title: 'WAS AT', of: (row) => row.was_start },
  { title: 'IS AT', of: (row) => row.window_start },
  { title: 'ENDS', of: (row) => row.window_end },
  { title: 'BUDGET', of: (row) => row.budget_usd, right: true },
]
