import { Command, Option } from 'commander'
import { type Adjustment, amountsOf } from '../core/adjustment.ts'
import {
  acceptLate,
  cancelByHand,
  EXECUTION_STATUSES,
  type ExecutionStatus,
  idempotencyKey,
  STUCK_DELIVERIES,
} from '../core/execution.ts'
import { formatInstant } from '../core/instant.ts'
import { formatBtc, formatPrice, formatUsd } from '../core/money.ts'
import type { Environment } from '../core/partner.ts'
import { Problem } from '../core/problem.ts'
import type { Report, Trade } from '../core/trade.ts'
import type { ExecutionRow, LateFillRow } from '../store/store.ts'
import {
  auditEntry,
  type Cli,
  type Column,
  confirmOnTerminal,
  print,
  printList,
  renderFields,
  renderTable,
} from './context.ts'
import { environmentOption, reasonOption, slug, wholeNumber } from './options/values.ts'

type ListOptions = { partner?: string; env?: Environment; status?: ExecutionStatus; stuck?: boolean }

export function executionCommand(cli: Cli): Command {
  const execution = new Command('execution').description('the instructions the scheduler created')

  execution
    .command('list')
    .description('executions, oldest first')
    .option('--stuck', `only those delivered ${STUCK_DELIVERIES} times or more and never confirmed`)
    .option('--partner <slug>', 'of this partner only', slug)
    .addOption(environmentOption())
    .addOption(new Option('--status <status>', 'in this state only').choices(EXECUTION_STATUSES))
    .action(({ partner, env, status, stuck }: ListOptions) =>
      cli.withStore((store) => {
        const filter = {
          slug: partner ?? null,
          environment: env ?? null,
          status: status ?? null,
          stuck: stuck ?? false,
        }
        return printList(cli, {
          read: (page) => store.listExecutions(filter, page),
          cursor: (row) => row.executionId,
          json: executionJson,
          columns: COLUMNS,
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
    .description('end an instruction nobody will ever confirm; its reservation goes back to its window')
    .argument('<execution-id>')
    .addOption(reasonOption('why, for whoever looks at it later'))
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

  execution
    .command('late-fills')
    .description('fills reported for executions that had been cancelled by then')
    .action(() =>
      cli.withStore((store) =>
        printList(cli, {
          read: (page) => store.listLateFills(page),
          cursor: (row) => row.reportId,
          json: lateJson,
          columns: LATE_COLUMNS,
        }),
      ),
    )

  execution
    .command('accept-late')
    .description('record a late fill as a trade: the partner really bought')
    .argument('<execution-id>')
    .option('--report <number>', 'which report, when there are several', wholeNumber(1, 999_999_999))
    .action(async (executionId: string, { report }: { report?: number }) => {
      await confirmOnTerminal(cli, `Record the late fill of ${executionId} as a trade? It will be billed.`)
      await cli.withStore(async (store) => {
        const ids = { executionId, reportId: report ?? null }
        const audit = auditEntry(cli, 'execution.accept-late', executionId, { report_id: report ?? null })
        const trade = await store.acceptLateReport(ids, acceptLate, audit)
        const json = { execution_id: executionId, ...tradeJson(trade) }
        print(cli, json, () => renderFields(json))
      })
    })

  return execution
}

type Outcome = { trade: Trade | null; adjustments: Adjustment[] }

async function show(cli: Cli, row: ExecutionRow, outcome: Outcome): Promise<void> {
  const { trade, adjustments, ...rest } = showJson(row, outcome)
  const table = adjustments.length === 0 ? '' : `\n\n${await renderTable(ADJUSTMENT_COLUMNS, adjustments)}`
  print(
    cli,
    { ...rest, trade, adjustments },
    () => `${renderFields({ ...rest, ...prefixed('trade_', trade ?? {}) })}${table}`,
  )
}

const executionJson = (row: ExecutionRow) => ({
  execution_id: row.executionId,
  partner_slug: row.tenant.partnerSlug,
  environment: row.tenant.environment,
  partner_user_id: row.partnerUserId,
  partner_plan_id: row.partnerPlanId,
  status: row.status,
  amount_usd: formatUsd(row.amount),
  created_at: formatInstant(row.createdAt),
  delivered_count: row.deliveredCount,
  lease_expires_at: row.leaseExpiresAt === null ? null : formatInstant(row.leaseExpiresAt),
  idempotency_key: idempotencyKey(row, formatInstant),
  trigger: row.firing.trigger,
})

const showJson = (row: ExecutionRow, { trade, adjustments }: Outcome) => ({
  ...executionJson(row),
  cancelled_at: row.cancelledAt === null ? null : formatInstant(row.cancelledAt),
  cancel_reason: row.cancelReason,
  slot: row.firing.slot,
  units: row.firing.units,
  price_usd: row.firing.price && formatPrice(row.firing.price),
  reference_usd: row.firing.reference && formatPrice(row.firing.reference),
  reservation_price_usd: row.firing.reservationPrice && formatPrice(row.firing.reservationPrice),
  ...adjustedJson(trade, adjustments),
  trade: trade && tradeJson(trade),
  adjustments: adjustments.map(adjustmentJson),
})

/** What a fill comes to after its adjustments; nothing where there are none. */
function adjustedJson(trade: Trade | null, adjustments: Adjustment[]) {
  const amounts = trade && adjustments.length > 0 ? amountsOf(trade, adjustments) : null
  return amounts === null
    ? {}
    : { adjusted_usd_amount: formatUsd(amounts.usd), adjusted_btc_amount: formatBtc(amounts.btc) }
}

const adjustmentJson = (adjustment: Adjustment) => ({
  adjustment: adjustment.adjustmentId,
  usd_difference: formatUsd(adjustment.usd),
  btc_difference: formatBtc(adjustment.btc),
  reason: adjustment.reason,
  recorded_at: formatInstant(adjustment.recordedAt),
})

const reportJson = (report: Report) => ({
  status: report.status,
  partner_order_id: report.partnerOrderId,
  usd_amount: 'usdAmount' in report ? formatUsd(report.usdAmount) : null,
  btc_amount: 'usdAmount' in report ? formatBtc(report.btcAmount) : null,
  execution_price: 'usdAmount' in report ? formatPrice(report.executionPrice) : null,
  partner_fee_usd: 'usdAmount' in report && report.partnerFee !== null ? formatUsd(report.partnerFee) : null,
  failure_reason: 'failureReason' in report ? report.failureReason : null,
  executed_at: report.executedAt === null ? null : formatInstant(report.executedAt),
})

const tradeJson = (trade: Trade) => ({
  ...reportJson(trade.report),
  recorded_at: formatInstant(trade.recordedAt),
})

const lateJson = (row: LateFillRow) => {
  const { status, ...report } = reportJson(row.report)
  return {
    execution_id: row.execution.executionId,
    partner_slug: row.execution.tenant.partnerSlug,
    environment: row.execution.tenant.environment,
    partner_user_id: row.execution.partnerUserId,
    partner_plan_id: row.execution.partnerPlanId,
    status: row.execution.status,
    amount_usd: formatUsd(row.execution.amount),
    created_at: formatInstant(row.execution.createdAt),
    report_id: row.reportId,
    reported_status: status,
    ...report,
    received_at: formatInstant(row.receivedAt),
    accepted_at: row.acceptedAt === null ? null : formatInstant(row.acceptedAt),
  }
}

const prefixed = (prefix: string, fields: object): Record<string, string | null> =>
  Object.fromEntries(Object.entries(fields).map(([name, value]) => [prefix + name, value]))

const COLUMNS: Column<ReturnType<typeof executionJson>>[] = [
  { title: 'EXECUTION', of: (row) => row.execution_id },
  { title: 'PLAN', of: (row) => row.partner_plan_id },
  { title: 'STATUS', of: (row) => row.status },
  { title: 'USD', of: (row) => row.amount_usd, right: true },
  { title: 'TRIGGER', of: (row) => row.trigger },
  { title: 'SENT', of: (row) => row.delivered_count, right: true },
  { title: 'CREATED', of: (row) => row.created_at },
]

const ADJUSTMENT_COLUMNS: Column<ReturnType<typeof adjustmentJson>>[] = [
  { title: 'ADJUSTMENT', of: (row) => row.adjustment, right: true },
  { title: 'USD', of: (row) => row.usd_difference, right: true },
  { title: 'BTC', of: (row) => row.btc_difference, right: true },
  { title: 'RECORDED', of: (row) => row.recorded_at },
  { title: 'REASON', of: (row) => row.reason },
]

const LATE_COLUMNS: Column<ReturnType<typeof lateJson>>[] = [
  { title: 'REPORT', of: (row) => row.report_id, right: true },
  { title: 'EXECUTION', of: (row) => row.execution_id },
  { title: 'PLAN', of: (row) => row.partner_plan_id },
  { title: 'ORDER', of: (row) => row.partner_order_id },
  { title: 'USD', of: (row) => row.usd_amount, right: true },
  { title: 'BTC', of: (row) => row.btc_amount, right: true },
  { title: 'RECEIVED', of: (row) => row.received_at },
  { title: 'ACCEPTED', of: (row) => row.accepted_at },
]
