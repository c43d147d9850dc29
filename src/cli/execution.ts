// execution: the instructions of the scheduler, listed, shown, cancelled, and their late fills.

import { Command, Option } from 'commander'
import { DUE_LATE_MS, STUCK_DELIVERIES } from '../core/alarm-thresholds.ts'
import { cancelByHand } from '../core/cancel-execution.ts'
import { EXECUTION_STATUSES, type ExecutionStatus } from '../core/execution.ts'
import { type Instant, MINUTE_MS } from '../core/instant.ts'
import type { Environment } from '../core/partner.ts'
import { Problem } from '../core/problem.ts'
import type { ExecutionOfOrder, ListedExecution, OrderIs } from '../store/executions.ts'
import type { TenantFilter } from '../store/partners.ts'
import type { Store } from '../store/store.ts'
import type { Cli } from './context.ts'
import {
  type adjustmentJson,
  executionJson,
  type KeptJson,
  type Outcome,
  showJson,
} from './execution/json.ts'
import { addLateFillCommands } from './execution/late-fills.ts'
import { environmentOption, reasonOption, slug, time, wholeNumber } from './options/values.ts'
import { auditEntry } from './shared/audit-entry.ts'
import { partnerNamed } from './shared/find-partner.ts'
import { confirmOnTerminal } from './terminal/ask.ts'
import { print, printList } from './terminal/print.ts'
import { type Column, renderFields, renderTable } from './terminal/table.ts'

type ListOptions = {
  partner?: string
  env?: Environment
  status?: ExecutionStatus
  since?: Instant
  limit?: number
  stuck?: boolean
  order?: string
}

export function executionCommand(cli: Cli): Command {
  const execution = new Command('execution').description('the instructions the scheduler created')

  execution
    .command('list')
    .description('executions, oldest first')
    .option(
      '--stuck',
      `only those due for more than ${DUE_LATE_MS / MINUTE_MS} minutes, or delivered ${STUCK_DELIVERIES} times or more and never confirmed`,
    )
    .option('--partner <slug>', 'only of this partner', slug)
    .addOption(environmentOption())
    .addOption(new Option('--status <status>', 'only in this state').choices(EXECUTION_STATUSES))
    .addOption(
      new Option(
        '--since <time>',
        'created then or later: 2026-01-31, 2026-01-31T08:00:00Z, or 24h for the last day',
      ).argParser(time(cli.machine.clock)),
    )
    .addOption(
      new Option('--limit <number>', 'the newest so many, still oldest first').argParser(
        wholeNumber(1, 999_999_999),
      ),
    )
    .addOption(
      new Option(
        '--order <id>',
        "that have this order of the partner's, as a trade, a further purchase or a late fill",
      ).conflicts(['stuck', 'status', 'since', 'limit']),
    )
    .action(({ partner, env, status, since, limit, stuck, order }: ListOptions) =>
      cli.withStore(async (store) => {
        if (partner !== undefined) await partnerNamed(store, partner)
        if (order !== undefined)
          return listOfOrder(cli, store, { slug: partner ?? null, environment: env ?? null }, order)
        const filter = {
          slug: partner ?? null,
          environment: env ?? null,
          status: status ?? null,
          stuck: stuck ?? false,
          since,
        }
        const counted = limit !== undefined && {
          after: await store.cursorOfNewest(filter, limit),
          limit,
        }
        await printList(cli, {
          read: (page) => store.listExecutions(filter, page),
          cursor: (row) => row.executionId,
          json: executionJson,
          columns: COLUMNS,
          ...counted,
        })
      }),
    )

  execution
    .command('show')
    .description('one execution: why it fired and what became of it')
    .argument('<execution-id>')
    .action((executionId: string) =>
      cli.withStore(async (store) => {
        const found = await store.findExecution(executionId)
        if (!found) throw new Problem('execution_not_found', `Execution ${executionId} not found.`)
        await show(cli, found.execution, found)
      }),
    )

  execution
    .command('cancel')
    .description('end an instruction that nobody will ever confirm; its reservation goes back to its window')
    .argument('<execution-id>')
    .addOption(reasonOption('why, for anyone who looks at it later'))
    .action(async (executionId: string, { reason }: { reason: string }) => {
      await confirmOnTerminal(
        cli,
        `Cancel ${executionId}? If the partner did buy, its confirmation will wait among the late fills.`,
      )
      await cli.withStore(async (store) => {
        const audit = auditEntry(cli, 'execution.cancel', executionId, { reason })
        await store.cancelExecution(executionId, (seen, now) => cancelByHand(seen, reason, now), audit)
        const found = await store.findExecution(executionId)
        if (found) await show(cli, found.execution, found)
      })
    })

  addLateFillCommands(cli, execution)
  return execution
}

async function show(cli: Cli, row: ListedExecution, outcome: Outcome): Promise<void> {
  const { trade, adjustments, late_fills, ...rest } = showJson(row, outcome)
  const tables = [
    await tableOf(ADJUSTMENT_COLUMNS, adjustments),
    await tableOf(LATE_FILL_COLUMNS, late_fills),
  ].join('')
  print(
    cli,
    { ...rest, trade, adjustments, late_fills },
    () => `${renderFields({ ...rest, ...prefixed('trade_', trade ?? {}) })}${tables}`,
  )
}

/** An order has few executions: mostly one, and those that another report of it was refused for. */
async function listOfOrder(cli: Cli, store: Store, filter: TenantFilter, order: string): Promise<void> {
  const found = await store.findByOrder(filter, order)
  await printList(cli, {
    read: async () => found,
    cursor: ({ execution }) => execution.executionId,
    json: ofOrderJson,
    columns: [...COLUMNS, ORDER_IS] as Column<ReturnType<typeof ofOrderJson>>[],
  })
}

const ofOrderJson = ({ execution, orderIs }: ExecutionOfOrder) => ({
  ...executionJson(execution),
  order_is: orderIs,
})

const tableOf = async <T>(columns: Column<T>[], rows: T[]): Promise<string> =>
  rows.length === 0 ? '' : `\n\n${await renderTable(columns, rows)}`

const prefixed = (prefix: string, fields: object): Record<string, string | null> =>
  Object.fromEntries(Object.entries(fields).map(([name, value]) => [prefix + name, value]))

const COLUMNS: Column<ReturnType<typeof executionJson>>[] = [
  { title: 'EXECUTION', of: (row) => row.execution_id },
  { title: 'PARTNER', of: (row) => row.partner_slug },
  { title: 'ENV', of: (row) => row.environment },
  { title: 'PLAN', of: (row) => row.partner_plan_id },
  { title: 'STATUS', of: (row) => row.status },
  { title: 'USD', of: (row) => row.amount_usd, right: true },
  { title: 'TRIGGER', of: (row) => row.trigger },
  { title: 'SENT', of: (row) => row.delivered_count, right: true },
  { title: 'CREATED', of: (row) => row.created_at },
]

const ORDER_IS: Column<{ order_is: OrderIs[] }> = {
  title: 'ORDER IS',
  of: (row) => row.order_is.join(', ').replaceAll('_', ' '),
}

const ADJUSTMENT_COLUMNS: Column<ReturnType<typeof adjustmentJson>>[] = [
  { title: 'ADJUSTMENT', of: (row) => row.adjustment, right: true },
  { title: 'ORDER', of: (row) => row.partner_order_id },
  { title: 'USD', of: (row) => row.usd_difference, right: true },
  { title: 'BTC', of: (row) => row.btc_difference, right: true },
  { title: 'PRICE', of: (row) => row.execution_price, right: true },
  { title: 'FEE', of: (row) => row.partner_fee_usd, right: true },
  { title: 'EXECUTED', of: (row) => row.executed_at },
  { title: 'RECORDED', of: (row) => row.recorded_at },
  { title: 'REASON', of: (row) => row.reason },
]

const LATE_FILL_COLUMNS: Column<KeptJson>[] = [
  { title: 'REPORT', of: (row) => row.report_id, right: true },
  { title: 'ORDER', of: (row) => row.partner_order_id },
  { title: 'USD', of: (row) => row.usd_amount, right: true },
  { title: 'BTC', of: (row) => row.btc_amount, right: true },
  { title: 'REFUSED', of: (row) => row.reason },
  { title: 'RECEIVED', of: (row) => row.received_at },
  { title: 'ACCEPTED', of: (row) => row.accepted_at },
  { title: 'DECIDED', of: (row) => row.decided_at },
  { title: 'DECISION', of: (row) => row.decision_reason },
]
