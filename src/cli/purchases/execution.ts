// execution: the instructions of the scheduler, listed, shown and cancelled, and their late fills decided.

import { Command, Option } from 'commander'
import {
  executedAtOf,
  isFill,
  type LateFill,
  type Report,
  type ReportColumn,
  type Trade,
} from '../../core/confirmation.ts'
import {
  type Adjustment,
  type AdjustmentFill,
  amountsOf,
  type Correction,
  feeOf,
} from '../../core/corrections/adjustment.ts'
import {
  type Acceptance,
  acceptLate,
  type LateFillDecision,
  severalWait,
} from '../../core/corrections/late-fill.ts'
import { acceptUnknown, type Booked } from '../../core/corrections/purchase.ts'
import {
  cancelByHand,
  EXECUTION_STATUSES,
  type ExecutionStatus,
  idempotencyKey,
} from '../../core/execution.ts'
import { DUE_LATE_MS, STUCK_DELIVERIES } from '../../core/findings.ts'
import { formatBtc, formatPrice, formatUsd, type Usd } from '../../core/money.ts'
import { type Environment, type Tenant, tenantJson } from '../../core/partner.ts'
import { notFound, usage } from '../../core/problem.ts'
import { counted } from '../../core/text.ts'
import { formatInstant, formatInstantOrNull, type Instant, MINUTE_MS } from '../../core/time.ts'
import type { ExecutionRecord, ListedExecution, ListedLateFill, OrderIs, Store } from '../../store/store.ts'
import { auditEntry, commandLine, filterOf, tenantNamed } from '../command.ts'
import type { Cli } from '../context.ts'
import { envOption, optionalReason, partnersId, reasonOption, slug, time, wholeNumber } from '../options.ts'
import {
  type Column,
  confirmOnTerminal,
  note,
  print,
  printFields,
  printList,
  printPages,
  renderFields,
  tableBelow,
  warn,
} from '../terminal.ts'

type ListOptions = {
  partner?: string
  env?: Environment
  status?: ExecutionStatus | null
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
    .addOption(envOption())
    .addOption(new Option('--status <status>', 'only in this state').choices(EXECUTION_STATUSES))
    .option(
      '--since <time>',
      'created then or later: 2026-01-31, 2026-01-31T08:00:00Z, or 24h for the last day',
      time(cli.machine.clock),
    )
    .option(
      '--limit <number>',
      'only so many of the newest, listed oldest first',
      wholeNumber(1, 999_999_999),
    )
    .addOption(
      new Option(
        '--order <id>',
        "those with this order id of the partner's, as a trade, a further purchase or a late fill",
      ).conflicts(['stuck', 'status', 'since', 'limit']),
    )
    .action(({ status = null, since, limit, stuck = false, order, ...given }: ListOptions) =>
      cli.withStore(async (store) => {
        const tenants = await filterOf(store, given)
        if (order !== undefined)
          // An order has few executions: mostly one, and those for which another report of it was refused.
          return printPages(cli, [await store.findByOrder(tenants, order)], {
            json: ({ execution, orderIs }) => ({ ...executionJson(execution), order_is: orderIs }),
            columns: OF_ORDER,
            none: 'No execution with this order.',
          })
        const filter = { ...tenants, status, stuck, since }
        await printList(cli, {
          read: (page) => store.listExecutions(filter, page),
          cursor: (row) => row.executionId,
          json: executionJson,
          columns: COLUMNS,
          none: 'No executions.',
          ...(limit !== undefined && { limit, after: await store.cursorOfNewest(filter, limit) }),
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
        if (!found) throw notFound('execution', executionId)
        await showExecution(cli, found)
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
        await store.cancelExecution(executionId, (found, now) => cancelByHand(found, reason, now), audit)
        const found = await store.findExecution(executionId)
        if (found) await showExecution(cli, found)
      })
    })

  addLateFillCommands(cli, execution)
  return execution
}

async function showExecution(cli: Cli, record: ExecutionRecord): Promise<void> {
  const json = showJson(record)
  const { trade, adjustments, late_fills, ...rest } = json
  const ofTrade = Object.entries(trade ?? {}).map(([name, value]) => [`trade_${name}`, value])
  const fields = renderFields({ ...rest, ...Object.fromEntries(ofTrade) })
  const corrected = await tableBelow(ADJUSTMENT_COLUMNS, adjustments)
  const late = await tableBelow(KEPT_COLUMNS, late_fills)
  print(cli, json, () => fields + corrected + late)
}

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

const OF_ORDER: Column<ReturnType<typeof executionJson> & { order_is: OrderIs[] }>[] = [
  ...COLUMNS,
  { title: 'ORDER IS', of: (row) => row.order_is.join(', ').replaceAll('_', ' ') },
]

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

const KEPT_COLUMNS: Column<Omit<LateFillParts, 'failure_reason'>>[] = [
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

const executionJson = (row: ListedExecution) => ({
  execution_id: row.executionId,
  ...tenantJson(row.tenant),
  partner_user_id: row.partnerUserId,
  partner_plan_id: row.partnerPlanId,
  status: row.status,
  amount_usd: formatUsd(row.amount),
  created_at: formatInstant(row.createdAt),
  delivered_count: row.deliveredCount,
  lease_expires_at: formatInstantOrNull(row.leaseExpiresAt),
  idempotency_key: idempotencyKey(row, formatInstant),
  trigger: row.firing.trigger,
})

const showJson = ({ execution: row, trade, adjustments, lateFills }: ExecutionRecord) => ({
  ...executionJson(row),
  cancelled_at: formatInstantOrNull(row.cancelledAt),
  cancel_reason: row.cancelReason,
  slot: row.firing.slot,
  units: row.firing.units,
  price_usd: row.firing.price && formatPrice(row.firing.price),
  reference_usd: row.firing.reference && formatPrice(row.firing.reference),
  reservation_price_usd: row.firing.reservationPrice && formatPrice(row.firing.reservationPrice),
  ...adjustedJson(trade, adjustments),
  trade: trade && tradeJson(trade),
  adjustments: adjustments.map(adjustmentJson),
  late_fills: lateFills.map((late) => {
    const { failure_reason: _, ...parts } = lateFillPartsJson(late)
    return parts
  }),
})

const usdOrNull = (amount: Usd | null): string | null => (amount === null ? null : formatUsd(amount))

/** The total of an execution after its adjustments; nothing where there are none. */
function adjustedJson(trade: Trade | null, adjustments: Adjustment[]) {
  if (trade === null || adjustments.length === 0) return {}
  const amounts = amountsOf(trade, adjustments)
  return {
    adjusted_usd_amount: formatUsd(amounts.usd),
    adjusted_btc_amount: formatBtc(amounts.btc),
    adjusted_partner_fee_usd: usdOrNull(feeOf(trade, adjustments)),
  }
}

const adjustmentJson = (adjustment: Adjustment) => ({
  adjustment: adjustment.adjustmentId,
  usd_difference: formatUsd(adjustment.usd),
  btc_difference: formatBtc(adjustment.btc),
  reason: adjustment.reason,
  recorded_at: formatInstant(adjustment.recordedAt),
  report_id: adjustment.reportId,
  partner_order_id: adjustment.partnerOrderId,
  ...adjustmentFillJson(adjustment),
})

/** The other facts about the purchase behind an adjustment. */
const adjustmentFillJson = ({ fill }: Adjustment) =>
  ({
    partner_fee_usd: usdOrNull(fill?.partnerFee ?? null),
    execution_price: fill && formatPrice(fill.executionPrice),
    executed_at: fill && formatInstant(fill.executedAt),
  }) satisfies Record<ReportColumn<keyof AdjustmentFill>, unknown>

export const correctionJson = ({ adjustment, window, before, after }: Correction) => ({
  execution_id: adjustment.executionId,
  adjustment: adjustment.adjustmentId,
  usd_amount_before: formatUsd(before.usd),
  usd_amount: formatUsd(after.usd),
  usd_difference: formatUsd(adjustment.usd),
  btc_amount_before: formatBtc(before.btc),
  btc_amount: formatBtc(after.btc),
  btc_difference: formatBtc(adjustment.btc),
  window_excess_usd: formatUsd(window.excess),
  reason: adjustment.reason,
  recorded_at: formatInstant(adjustment.recordedAt),
})

const reportJson = (report: Report) => {
  const fill = isFill(report) ? report : null
  return {
    status: report.status,
    partner_order_id: report.partnerOrderId,
    usd_amount: fill && formatUsd(fill.usdAmount),
    btc_amount: fill && formatBtc(fill.btcAmount),
    execution_price: fill && formatPrice(fill.executionPrice),
    partner_fee_usd: usdOrNull(fill?.partnerFee ?? null),
    failure_reason: isFill(report) ? null : report.failureReason,
    executed_at: formatInstantOrNull(report.executedAt),
  } satisfies Record<ReportColumn, string | null>
}

export const tradeJson = (trade: Trade) => ({
  ...reportJson(trade.report),
  executed_at: formatInstantOrNull(executedAtOf(trade)),
  recorded_at: formatInstant(trade.recordedAt),
})

const lateFillPartsJson = ({ report, ...late }: LateFill) => {
  const { status, ...reported } = reportJson(report)
  return {
    report_id: late.reportId,
    reported_status: status,
    ...reported,
    received_at: formatInstant(late.receivedAt),
    accepted_at: formatInstantOrNull(late.acceptedAt),
    reason: late.reason,
    decided_at: formatInstantOrNull(late.decidedAt),
    decision_reason: late.decisionReason,
  }
}
type LateFillParts = ReturnType<typeof lateFillPartsJson>

const lateFillJson = ({ execution, ...late }: ListedLateFill) => {
  const { decision_reason, ...parts } = lateFillPartsJson(late)
  return {
    execution_id: late.executionId,
    ...tenantJson(late.tenant),
    // An execution that the ledger lacks has no other fields.
    partner_user_id: execution?.partnerUserId ?? null,
    partner_plan_id: execution?.partnerPlanId ?? null,
    status: execution?.status ?? null,
    amount_usd: execution && formatUsd(execution.amount),
    created_at: execution && formatInstant(execution.createdAt),
    ...parts,
    unkept_reports: late.unkept,
    decision_reason,
  }
}

// execution late-fills, accept-late and dismiss-late: late fills, and an operator's decision on them.

const REASONS = `
REASON says why a report was refused:
  execution_cancelled      the execution was cancelled by then
  execution_recorded       another outcome is on record
  amount_over_reservation  it is above what was reserved
  order_id_taken           another execution holds its order id
  execution_pending        the execution had not been delivered yet
  execution_not_found      the ledger does not know the execution, as after a backup was put back`

function addLateFillCommands(cli: Cli, execution: Command): void {
  execution
    .command('late-fills')
    .description('reported fills that were refused: real money may have moved')
    .addHelpText('after', REASONS)
    .addOption(envOption())
    .action(({ env }: { env?: Environment }) =>
      cli.withStore((store) =>
        printList(cli, {
          read: (page) => store.listLateFills(page, { slug: null, environment: env ?? null }),
          cursor: (row) => row.reportId,
          json: lateFillJson,
          columns: LATE_FILL_COLUMNS,
          none: 'No late fills.',
        }),
      ),
    )

  execution
    .command('accept-late')
    .description('record a late fill: the partner really bought, whatever the reservation was')
    .argument('<execution-id>')
    .addOption(reportOption(execution))
    .option('--plan <id>', "of an execution that the ledger does not know: the partner's plan", partnersId)
    .addOption(keyOption())
    .addOption(optionalReason('why, for anyone who looks at it later'))
    .action(async (executionId: string, { report, plan, idempotencyKey: key, reason }: AcceptOptions) => {
      await confirmOnTerminal(cli, `Record the late fill of ${executionId}? It will be billed.`)
      await cli.withStore(async (store) => {
        const ids = { executionId, reportId: report ?? null, reason }
        const [tenant] = await store.findUnknown(executionId)
        if (tenant) return acceptOfUnknown(cli, store, tenant, { ...ids, plan, key: key ?? null })
        if (plan !== undefined || key !== undefined)
          throw usage('--plan and --idempotency-key are for an execution that the ledger does not know.')
        const acceptance = await store.acceptLateFill(ids, acceptLate, (_, { reportId }) =>
          auditEntry(cli, 'execution.accept-late', executionId, { report_id: reportId, reason }),
        )
        printFields(cli, acceptanceJson(executionId, acceptance))
        if (acceptance.waiting.length > 0) note(cli, stillWaiting(cli, executionId, acceptance.waiting))
      })
    })

  execution
    .command('dismiss-late')
    .description('decide that a late fill of an execution is not a purchase of its own; it stays listed')
    .argument('[execution-id]')
    .addOption(reportOption(execution).conflicts(['all', 'partner']))
    .addOption(new Option('--all', 'all of its late fills that wait for a decision').conflicts('partner'))
    .option(
      '--partner <slug>',
      'instead of an execution: the reports of unknown executions that were counted and not kept',
      slug,
    )
    .addOption(envOption())
    .addOption(reasonOption('why, for anyone who looks at it later'))
    .action(async (executionId: string | undefined, { partner, env, ...options }: Dismissal) => {
      if ((executionId === undefined) === (partner === undefined))
        throw usage('Give the id of an execution, or --partner.')
      if (executionId !== undefined && env !== undefined)
        throw usage('--env goes with --partner: an execution is of one environment.')
      if (executionId !== undefined) await dismiss(cli, executionId, options)
      else if (partner !== undefined) await dismissCounted(cli, partner, { env: env ?? 'live', ...options })
    })
}

async function dismiss(cli: Cli, executionId: string, { report, all, reason }: Dismissal): Promise<void> {
  await confirmOnTerminal(cli, `Dismiss what was reported of ${executionId}? It will not be billed.`)
  await cli.withStore(async (store) => {
    const ids = { executionId, reportId: report ?? null, reason }
    const dismissed = await store.dismissLateFills(ids, (late) => {
      // Money may have moved in each of them. Thrown inside the transaction, this leaves all of them waiting.
      if (!all && late.length > 1)
        throw severalWait(executionId, late, 'name one with --report, or dismiss them with --all.')
      const detail = { report_ids: late.map(({ reportId }) => reportId), reason }
      return auditEntry(cli, 'execution.dismiss-late', executionId, detail)
    })
    const json = { execution_id: executionId, report_ids: dismissed.map((late) => late.reportId), reason }
    print(cli, json, () => renderFields({ ...json, report_ids: json.report_ids.join(', ') }))
  })
}

/** Only the number of these reports is stored, so none has an id. */
async function dismissCounted(
  cli: Cli,
  partnerSlug: string,
  { env, reason }: { env: Environment; reason: string },
): Promise<void> {
  await confirmOnTerminal(
    cli,
    `Dismiss what ${partnerSlug} ${env} reported of executions that the ledger does not know, and that was only counted? It will not be billed.`,
  )
  await cli.withStore(async (store) => {
    const tenant = await tenantNamed(store, partnerSlug, env)
    const unkept = await store.dismissUnkept(tenant, (count) =>
      auditEntry(cli, 'execution.dismiss-late', `${partnerSlug} ${env}`, {
        partner_slug: partnerSlug,
        unkept_reports: count,
        reason,
      }),
    )
    printFields(cli, { partner_slug: partnerSlug, environment: env, unkept_reports: unkept, reason })
  })
}

type AcceptOptions = { report?: number; plan?: string; idempotencyKey?: string; reason?: string }

/** The key of a purchase that the ledger lacks. */
export const keyOption = () =>
  new Option(
    '--idempotency-key <key>',
    'the idempotency key it was ordered under, if that is not the order id: its tranche is not delivered again',
  )

/** The effect of a booked purchase on the next tranche. */
export function noteSchedule(cli: Cli, booked: Booked, key: string | null): void {
  const { schedule, stillOpen, execution, window, isNewWindow, trade } = booked
  if (stillOpen !== null) {
    const argv = ['tranche', 'execution', 'cancel', stillOpen, '--reason', 'its order is booked']
    const what = `Execution ${stillOpen} has this key, and its confirmation would be refused`
    note(cli, `${what}: end it with ${commandLine(cli.self(), argv)}`)
  } else if (isNewWindow && trade.recordedAt < window.end)
    warn(
      cli,
      `The ledger has lost the window of this order, and the rest of that window gets new idempotency keys: book every order of that window before the next tick.`,
    )
  else if (schedule !== null)
    note(
      cli,
      `The tranche of this order is not delivered again: tranche ${schedule.trancheIndex} of its window is the next.`,
    )
  else if (key !== null)
    note(
      cli,
      `This key is not of the next tranche of plan ${execution.partnerPlanId}: its schedule stays as it is.`,
    )
}

/** The partner knows the execution and its plan; the ledger has to be told. */
async function acceptOfUnknown(
  cli: Cli,
  store: Store,
  tenant: Tenant,
  { plan, key, ...ids }: LateFillDecision & { plan: string | undefined; key: string | null },
): Promise<void> {
  const { executionId, reason } = ids
  if (plan === undefined)
    throw usage(
      `The ledger does not know execution ${executionId}: name its plan with --plan, as ${tenant.partnerSlug} has it.`,
    )
  const booking = await store.acceptUnknownFill(
    tenant,
    { ...ids, partnerPlanId: plan },
    (facts, late, now) => acceptUnknown(facts, { ...late, key }, now),
    (_, { reportId }) =>
      auditEntry(cli, 'execution.accept-late', executionId, {
        partner_slug: tenant.partnerSlug,
        report_id: reportId,
        partner_plan_id: plan,
        reason,
      }),
  )
  printFields(cli, { execution_id: executionId, partner_plan_id: plan, ...tradeJson(booking.trade) })
  noteSchedule(cli, booking, key)
}

type Dismissal = { partner?: string; env?: Environment; report?: number; all?: boolean; reason: string }

const reportOption = (execution: Command) =>
  execution
    .createOption('--report <number>', 'which report, when there are several')
    .argParser(wholeNumber(1, 999_999_999))

/** An acceptance does not decide reports that differ, so that no purchase is dropped. */
function stillWaiting(cli: Cli, executionId: string, waiting: readonly number[]): string {
  const options = ['--report', `${waiting[0]}`, '--reason', 'WHY']
  const argv = ['tranche', 'execution', 'dismiss-late', executionId, ...options]
  const which = `${counted(waiting.length, 'late fill')} of this execution still ${waiting.length === 1 ? 'waits' : 'wait'} for a decision`
  return `${which} (report ${waiting.join(', ')}): accept each one that was bought too; dismiss the others with ${commandLine(cli.self(), argv)}`
}

const acceptanceJson = (executionId: string, acceptance: Acceptance) =>
  acceptance.kind === 'adjusted'
    ? { ...correctionJson(acceptance), ...adjustmentFillJson(acceptance.adjustment) }
    : { execution_id: executionId, ...tradeJson(acceptance.trade) }

const LATE_FILL_COLUMNS: Column<ReturnType<typeof lateFillJson>>[] = [
  { title: 'REPORT', of: (row) => row.report_id, right: true },
  { title: 'EXECUTION', of: (row) => row.execution_id },
  { title: 'PARTNER', of: (row) => row.partner_slug },
  { title: 'ENV', of: (row) => row.environment },
  { title: 'PLAN', of: (row) => row.partner_plan_id },
  { title: 'ORDER', of: (row) => row.partner_order_id },
  { title: 'USD', of: (row) => row.usd_amount, right: true },
  { title: 'BTC', of: (row) => row.btc_amount, right: true },
  { title: 'REASON', of: (row) => row.reason },
  { title: 'RECEIVED', of: (row) => row.received_at },
  { title: 'ACCEPTED', of: (row) => row.accepted_at },
  { title: 'DECIDED', of: (row) => row.decided_at },
]
