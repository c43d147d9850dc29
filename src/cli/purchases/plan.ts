// plan: the plans of partners: listed, shown, and brought back after a clock was ahead.

import { Command } from 'commander'
import { clockDisputed } from '../../core/clock.ts'
import { formatPrice, formatUsd, ZERO_USD } from '../../core/money.ts'
import { type Environment, tenantJson } from '../../core/partner.ts'
import { notFound, usage } from '../../core/problem.ts'
import { counted } from '../../core/text.ts'
import { formatInstant, formatInstantOrNull } from '../../core/time.ts'
import { awaitedPrice, type Schedule, type Window } from '../../core/window.ts'
import { planJson, windowJson } from '../../http/answer-json.ts'
import type { AuditEntry, ListedPlan, PlanAhead, Store, TenantFilter } from '../../store/store.ts'
import { auditEntry, filterOf } from '../command.ts'
import type { Cli } from '../context.ts'
import { envOption, partnersId, slug } from '../options.ts'
import {
  type Column,
  confirmOnTerminal,
  print,
  printList,
  renderFields,
  renderTable,
  tableBelow,
} from '../terminal.ts'

type Filter = { partner?: string; env?: Environment }

export function planCommand(cli: Cli): Command {
  const plan = new Command('plan').description('the plans partners have created')

  plan
    .command('list')
    .description('all plans, with their current window')
    .option('--partner <slug>', 'only of this partner', slug)
    .addOption(envOption())
    .action((given: Filter) =>
      cli.withStore(async (store) => {
        const filter = await filterOf(store, given)
        await printList(cli, {
          read: (page) => store.listPlans(filter, page),
          cursor: (row) => row.planId,
          json: listJson,
          columns: COLUMNS,
          none: 'No plans.',
        })
      }),
    )

  plan
    .command('show')
    .description('one plan: its windows, its ledger and what it waits for')
    .argument('<partner-plan-id>', '', partnersId)
    .option('--partner <slug>', 'when several partners use this id', slug)
    .addOption(envOption())
    .action((id: string, { partner, env }: Filter) =>
      cli.withStore(async (store) => {
        const named = (await store.findPlans(id)).filter(
          ({ tenant }) =>
            (partner ?? tenant.partnerSlug) === tenant.partnerSlug &&
            (env ?? tenant.environment) === tenant.environment,
        )
        const [only, another] = named
        if (!only) throw notFound('plan', id)
        if (another) {
          const places = named.map(({ tenant }) => `${tenant.partnerSlug} ${tenant.environment}`).join(', ')
          throw usage(`Several plans are called ${id} (${places}): add --partner and --env.`)
        }
        const windows = only.windows.map(ledgerJson)
        const schedule = only.schedule && scheduleJson(only.schedule)
        const { window, ...fields } = listJson(only)
        const parts = [renderFields(fields), await renderTable(WINDOW_COLUMNS, windows)]
        if (schedule) parts.push(renderFields(schedule))
        print(cli, { ...fields, window, windows, schedule }, () => parts.join('\n\n'))
      }),
    )

  plan
    .command('bring-back')
    .description(
      'after the clock was ahead: bring windows that were rolled into the future back to the present',
    )
    .option('--partner <slug>', 'only of this partner', slug)
    .addOption(envOption())
    .option('--dry-run', 'say what would be done; change nothing', false)
    .action(({ dryRun, ...given }: Filter & { dryRun: boolean }) => bringBack(cli, given, dryRun))

  return plan
}

const listJson = (row: ListedPlan) => ({
  ...tenantJson(row.tenant),
  ...planJson(row),
  window: row.window && ledgerJson(row.window),
})

/** A closed window has nothing left: the unspent part is released. */
function ledgerJson(window: Window) {
  const { left_usd, ...amounts } = windowJson(window)
  const { closed, released } = window
  return {
    ...amounts,
    released_usd: formatUsd(released),
    left_usd: closed ? formatUsd(ZERO_USD) : left_usd,
    closed_at: closed ? formatInstant(closed.at) : null,
    close_reason: closed?.reason ?? null,
  }
}

function scheduleJson(schedule: Schedule) {
  const awaited = awaitedPrice(schedule)
  return {
    next_run_at: formatInstant(schedule.nextRunAt),
    slots: schedule.layout?.slots ?? null,
    units_per_slot: schedule.layout?.unitsPerSlot ?? null,
    units_fired: schedule.layout?.unitsFired ?? null,
    slot: schedule.slot < 0 ? null : schedule.slot,
    reference_usd: schedule.reference && formatPrice(schedule.reference.price),
    reservation_price_usd: awaited && formatPrice(awaited),
    clock_at: formatInstantOrNull(schedule.clockAt),
    min_tranche_usd: formatUsd(schedule.floor),
  }
}

const COLUMNS: Column<ReturnType<typeof listJson>>[] = [
  { title: 'PLAN', of: (row) => row.partner_plan_id },
  { title: 'PARTNER', of: (row) => `${row.partner_slug} ${row.environment}` },
  { title: 'USER', of: (row) => row.partner_user_id },
  { title: 'STATUS', of: (row) => row.status },
  { title: 'USD', of: (row) => row.amount_usd, right: true },
  { title: 'EVERY', of: (row) => row.frequency },
  { title: 'SPENT', of: (row) => row.window?.spent_usd ?? null, right: true },
  { title: 'RESERVED', of: (row) => row.window?.reserved_usd ?? null, right: true },
  { title: 'WINDOW ENDS', of: (row) => row.window?.window_end ?? null },
]

const WINDOW_COLUMNS: Column<ReturnType<typeof ledgerJson>>[] = [
  { title: 'WINDOW', of: (row) => row.window_start },
  { title: 'ENDS', of: (row) => row.window_end },
  { title: 'BUDGET', of: (row) => row.budget_usd, right: true },
  { title: 'RESERVED', of: (row) => row.reserved_usd, right: true },
  { title: 'SPENT', of: (row) => row.spent_usd, right: true },
  { title: 'RELEASED', of: (row) => row.released_usd, right: true },
  { title: 'LEFT', of: (row) => row.left_usd, right: true },
  { title: 'EXCESS', of: (row) => row.excess_usd, right: true },
  { title: 'CLOSED', of: (row) => row.close_reason },
]

// plan bring-back: windows that were rolled into the future, because the clock was ahead, are put back in their place
// on the grid.

/** Plans found in one read and brought back together, so that they share commits. */
const PAGE_PLANS = 500

/** Throws partner_not_found, and clock_disputed: while the clock is in doubt, no window has a known place. */
async function bringBack(cli: Cli, given: Filter, dryRun: boolean): Promise<void> {
  if (!dryRun)
    await confirmOnTerminal(cli, 'Give every plan whose window was rolled ahead its present window?')
  await cli.withStore(async (store) => {
    const filter = await filterOf(store, given)
    const { standing } = await store.readClock()
    if (standing) throw clockDisputed(standing)
    const rows: ReturnType<typeof planAheadJson>[] = []
    for await (const plans of pagesOf(store, filter)) {
      const moved = dryRun ? plans : await Promise.all(plans.map((plan) => moveBack(cli, store, plan)))
      rows.push(...moved.filter((plan) => plan !== null).map(planAheadJson))
    }
    const json = { dry_run: dryRun, brought_back: dryRun ? 0 : rows.length, plans: rows }
    const table = await tableBelow(PLAN_AHEAD_COLUMNS, rows)
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
    const { partner_slug, environment, partner_plan_id, ...detail } = planAheadJson(plan)
    const subject = `${partner_slug} ${environment} plan ${partner_plan_id}`
    return auditEntry(cli, 'plan.bring-back', subject, detail)
  })

const planAheadJson = ({ tenant, partnerPlanId, window, place }: PlanAhead) => ({
  ...tenantJson(tenant),
  partner_plan_id: partnerPlanId,
  was_start: formatInstant(window.start),
  window_start: formatInstant(place.start),
  window_end: formatInstant(place.end),
  budget_usd: formatUsd(place.budget),
})

const PLAN_AHEAD_COLUMNS: Column<ReturnType<typeof planAheadJson>>[] = [
  { title: 'PLAN', of: (row) => row.partner_plan_id },
  { title: 'PARTNER', of: (row) => `${row.partner_slug} ${row.environment}` },
  { title: 'WAS AT', of: (row) => row.was_start },
  { title: 'IS AT', of: (row) => row.window_start },
  { title: 'ENDS', of: (row) => row.window_end },
  { title: 'BUDGET', of: (row) => row.budget_usd, right: true },
]
