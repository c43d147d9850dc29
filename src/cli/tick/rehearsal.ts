// What a pass would do: every tranche that would fire, and why.

import { counted } from '../../core/counted.ts'
import { failsafeStart } from '../../core/failsafe-start.ts'
import { formatInstant } from '../../core/instant.ts'
import { formatPrice, formatUsd } from '../../core/money.ts'
import type { Rehearsal } from '../../engine/pass.ts'
import type { Preview } from '../../store/passes.ts'
import type { Cli } from '../context.ts'
import { print } from '../terminal/print.ts'
import { type Column, renderTable } from '../terminal/table.ts'

export async function showRehearsal(cli: Cli, rehearsal: Rehearsal): Promise<void> {
  const json = {
    at: formatInstant(rehearsal.at),
    price_usd: rehearsal.price && formatPrice(rehearsal.price),
    plans_evaluated: rehearsal.plansEvaluated,
    executions_created: 0,
    dry_run: true,
    would_fire: rehearsal.fired.map((fired) => firedJson(fired, rehearsal.leadMs)),
  }
  const table = await renderTable(COLUMNS, json.would_fire)
  const head = `${json.would_fire.length} would fire of ${counted(json.plans_evaluated, 'plan')} looked at, price ${json.price_usd ?? 'not live'}.`
  print(cli, json, () => (json.would_fire.length === 0 ? head : `${head}\n\n${table}`))
}

/** A tranche and everything that led to it. */
const firedJson = ({ tenant, partnerPlanId, tranche, schedule }: Preview, leadMs: number) => ({
  partner_slug: tenant.partnerSlug,
  environment: tenant.environment,
  partner_plan_id: partnerPlanId,
  amount_usd: formatUsd(tranche.amount),
  trigger: tranche.trigger,
  tranche_index: schedule.trancheIndex - 1,
  slot: tranche.slot,
  units: tranche.units,
  units_fired: schedule.layout?.unitsFired ?? 0,
  units_total: (schedule.layout?.slots ?? 0) * (schedule.layout?.unitsPerSlot ?? 0),
  reference_usd: tranche.reference && formatPrice(tranche.reference),
  reservation_price_usd: tranche.reservationPrice && formatPrice(tranche.reservationPrice),
  deadline: formatInstant(schedule.nextRunAt),
  failsafe_at: formatInstant(failsafeStart(schedule, leadMs)),
  window_end: formatInstant(schedule.windowEnd),
})

const COLUMNS: Column<ReturnType<typeof firedJson>>[] = [
  { title: 'PLAN', of: (row) => row.partner_plan_id },
  { title: 'PARTNER', of: (row) => `${row.partner_slug} ${row.environment}` },
  { title: 'USD', of: (row) => row.amount_usd, right: true },
  { title: 'WHY', of: (row) => row.trigger },
  { title: 'SLOT', of: (row) => row.slot, right: true },
  { title: 'UNITS', of: (row) => `${row.units_fired}/${row.units_total}`, right: true },
  { title: 'REFERENCE', of: (row) => row.reference_usd, right: true },
  { title: 'RESERVATION', of: (row) => row.reservation_price_usd, right: true },
  { title: 'DEADLINE', of: (row) => row.deadline },
]
