// plan: the plans of partners, listed and shown.

import { Command } from 'commander'
import { formatInstant } from '../core/instant.ts'
import { formatPrice, formatUsd, ZERO_USD } from '../core/money.ts'
import type { Environment } from '../core/partner.ts'
import { Problem } from '../core/problem.ts'
import { awaitedPrice, type Schedule } from '../core/schedule-state.ts'
import type { Window } from '../core/window.ts'
import { planJson, windowJson } from '../http/answers/resource-json.ts'
import type { ListedPlan } from '../store/plans.ts'
import type { Cli } from './context.ts'
import { environmentOption, slug } from './options/values.ts'
import { partnerNamed } from './shared/find-partner.ts'
import { print, printList } from './terminal/print.ts'
import { type Column, renderFields, renderTable } from './terminal/table.ts'

type Filter = { partner?: string; env?: Environment }

export function planCommand(cli: Cli): Command {
  const plan = new Command('plan').description('the plans partners have created')

  plan
    .command('list')
    .description('all plans, with their current window')
    .option('--partner <slug>', 'only of this partner', slug)
    .addOption(environmentOption())
    .action(({ partner, env }: Filter) =>
      cli.withStore(async (store) => {
        if (partner !== undefined) await partnerNamed(store, partner)
        await printList(cli, {
          read: (page) => store.listPlans({ slug: partner ?? null, environment: env ?? null }, page),
          cursor: (row) => row.planId,
          json: listJson,
          columns: COLUMNS,
        })
      }),
    )

  plan
    .command('show')
    .description('one plan: its windows, its ledger and what it waits for')
    .argument('<partner-plan-id>')
    .option('--partner <slug>', 'when several partners use this id', slug)
    .addOption(environmentOption())
    .action((id: string, { partner, env }: Filter) =>
      cli.withStore(async (store) => {
        const named = (await store.findPlans(id)).filter(
          ({ tenant }) =>
            (partner ?? tenant.partnerSlug) === tenant.partnerSlug &&
            (env ?? tenant.environment) === tenant.environment,
        )
        const [only, another] = named
        if (!only) throw new Problem('plan_not_found', `Plan ${id} not found.`)
        if (another) {
          const places = named.map(({ tenant }) => `${tenant.partnerSlug} ${tenant.environment}`).join(', ')
          throw new Problem('usage', `Several plans are called ${id} (${places}): add --partner and --env.`)
        }
        const json = {
          ...listJson(only),
          windows: only.windows.map(ledgerJson),
          schedule: only.schedule && scheduleJson(only.schedule),
        }
        const table = await renderTable(WINDOW_COLUMNS, json.windows)
        print(cli, json, () => inWords(json, table))
      }),
    )

  plan
    .command('bring-back')
    .description(
      'after the clock was ahead: bring windows that were rolled into the future back to the present',
    )
    .option('--partner <slug>', 'only of this partner', slug)
    .addOption(environmentOption())
    .option('--dry-run', 'say what would be done; change nothing', false)
    .action(async ({ partner, env, dryRun }: Filter & { dryRun: boolean }) => {
      const { bringBack } = await import('./plan/bring-back.ts')
      await bringBack(cli, { slug: partner ?? null, environment: env ?? null }, dryRun)
    })

  return plan
}

const listJson = (row: ListedPlan) => ({
  partner_slug: row.tenant.partnerSlug,
  environment: row.tenant.environment,
  ...planJson(row),
  window: row.window && ledgerJson(row.window),
})

/** Nothing is left of a closed window: what it did not spend is released. */
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

/** What the next purchase waits for. */
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
    clock_at: schedule.clockAt === null ? null : formatInstant(schedule.clockAt),
    min_tranche_usd: formatUsd(schedule.floor),
  }
}

type Shown = ReturnType<typeof listJson> & {
  windows: ReturnType<typeof ledgerJson>[]
  schedule: ReturnType<typeof scheduleJson> | null
}

function inWords({ window: _, windows: __, schedule, ...plan }: Shown, table: string): string {
  const parts = [renderFields(plan), table]
  if (schedule) parts.push(renderFields(schedule))
  return parts.join('\n\n')
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
