// trade: corrects confirmed purchases, and books purchases that the ledger lacks.

import { Command } from 'commander'
import { isFill, type Trade } from '../../core/confirmation.ts'
import { type Amounts, adjust, type Correction } from '../../core/corrections/adjustment.ts'
import { type Booking, bookPurchase, purchaseFill } from '../../core/corrections/purchase.ts'
import { nextExecutionId } from '../../core/execution.ts'
import { btc, formatBtc, formatPrice, formatUsd, usd } from '../../core/money.ts'
import type { Environment } from '../../core/partner.ts'
import type { OddPrice } from '../../core/price.ts'
import { formatInstant, type Instant, monthOf } from '../../core/time.ts'
import { auditEntry, tenantNamed } from '../command.ts'
import type { Cli } from '../context.ts'
import { amount, envOption, partnersAmount, partnersId, reasonOption, slug, time } from '../options.ts'
import { confirmOnTerminal, note, printFields, warn } from '../terminal.ts'
import { correctionJson, keyOption, noteSchedule, tradeJson } from './execution.ts'

export function tradeCommand(cli: Cli): Command {
  const trade = new Command('trade').description('what partners confirmed')

  trade
    .command('adjust')
    .description('correct the amounts of an execution, with an adjustment in the present month')
    .argument('<execution-id>')
    .requiredOption('--usd <usd>', 'what was really spent', amount)
    .requiredOption('--btc <btc>', 'what was really bought', amount)
    .addOption(reasonOption('why, for finance and the partner: the export shows it'))
    .action(async (executionId: string, options: Record<'usd' | 'btc' | 'reason', string>) => {
      const { reason } = options
      const right = { usd: usd(options.usd), btc: btc(options.btc), reason }
      await confirmOnTerminal(
        cli,
        `Set ${executionId} to ${formatUsd(right.usd)} USD for ${formatBtc(right.btc)} BTC? It will be billed.`,
      )
      await cli.withStore(async (store) => {
        const correction = await store.adjustTrade(
          executionId,
          (facts, now) => adjust(facts, right, now),
          (done) => auditEntry(cli, 'trade.adjust', executionId, auditDetail(done)),
        )
        if (correction.odd !== null) warn(cli, doubtful(correction.after, correction.odd))
        printFields(cli, correctionJson(correction))
        const record = await store.findExecution(executionId)
        if (record?.trade && record.execution.tenant.environment === 'live')
          noteMonth(cli, correction, record.trade)
      })
    })

  addRecord(cli, trade)
  return trade
}

/** A correction belongs to the month in which it is made, whose tier prices it, and changes no other. */
function noteMonth(cli: Cli, { adjustment }: Correction, { recordedAt }: Trade): void {
  const [month, ofTrade] = [monthOf(adjustment.recordedAt), monthOf(recordedAt)]
  if (month === ofTrade || adjustment.usd === 0n) return
  const effect = adjustment.usd < 0n ? 'lowers' : 'raises'
  const nothing = adjustment.usd < 0n ? `: credit nothing of ${ofTrade} for it` : ''
  note(
    cli,
    `It ${effect} the volume of ${month}, and so the fee of ${month}, at the tier of ${month}${nothing}.`,
  )
}

/** It is recorded anyway: the price may be the wrong figure. */
const doubtful = (after: Amounts, { price, fault }: OddPrice): string =>
  `${formatUsd(after.usd)} USD for ${formatBtc(after.btc)} BTC ${DOUBTS[fault]} ${formatPrice(price)}: look again, and adjust it again if a figure is wrong. \`tranche check\` reports it as trade_price.`

const DOUBTS = {
  contradicted: 'does not fit the price it was confirmed at,',
  far_off: 'is as far from the market as the confirmed price of',
}

/** Without the fields that the audit entry has itself. */
function auditDetail(correction: Correction): Record<string, unknown> {
  const { execution_id: _, recorded_at: __, ...detail } = correctionJson(correction)
  return detail
}

type RecordOptions = {
  partner: string
  env: Environment
  plan: string
  order: string
  usd: string
  btc: string
  fee?: string
  idempotencyKey?: string
  at?: Instant
  reason: string
  yes?: true
}

function addRecord(cli: Cli, trade: Command): void {
  trade
    .command('record')
    .description('record a purchase that the ledger lacks, once for each order, in the present month')
    .requiredOption('--partner <slug>', 'the partner that bought', slug)
    .addOption(envOption().default('live'))
    .requiredOption('--plan <id>', "the partner's plan that it was made for", partnersId)
    .requiredOption('--order <id>', "the partner's order id", partnersId)
    .requiredOption('--usd <usd>', 'what was spent', partnersAmount)
    .requiredOption('--btc <btc>', 'what was bought', partnersAmount)
    .option('--fee <usd>', "the partner's own fee", partnersAmount)
    .addOption(keyOption())
    .option(
      '--at <time>',
      'when it was bought, by default now: 2026-01-31T08:00:00Z, or 24h for a day ago',
      time(cli.machine.clock),
    )
    .addOption(reasonOption('why, for anyone who looks at it later'))
    .option('--yes', 'do not ask, and book it beside a purchase of the plan with the same amounts that day')
    .action((options: RecordOptions) => record(cli, options))
}

async function record(cli: Cli, options: RecordOptions): Promise<void> {
  const { partner, env, plan, order, idempotencyKey: key = null, reason, at = null, yes = false } = options
  const partnerFee = options.fee === undefined ? null : usd(options.fee)
  const fill = purchaseFill({
    partnerOrderId: order,
    usd: usd(options.usd),
    btc: btc(options.btc),
    partnerFee,
    executedAt: at,
  })
  const amounts = `${formatUsd(fill.usdAmount)} USD for ${formatBtc(fill.btcAmount)} BTC`
  if (!yes)
    await confirmOnTerminal(cli, `Record order ${order} of ${partner} ${env}, ${amounts}? It will be billed.`)
  await cli.withStore(async (store) => {
    const tenant = await tenantNamed(store, partner, env)
    const booking = await store.recordPurchase(
      tenant,
      { partnerPlanId: plan, fill },
      {
        decide: (facts, now) => bookPurchase(facts, { ...fill, key, isTwin: yes }, now),
        newExecutionId: (previous, real) => nextExecutionId(previous, real, cli.machine.random(10)),
      },
      (booked) =>
        auditEntry(cli, 'trade.record', booked.execution.executionId, {
          partner_slug: partner,
          environment: env,
          ...bookedDetail(booked),
          reason,
        }),
    )
    printFields(cli, recordJson(booking, { partner, env }))
    if (booking.kind === 'booked') for (const doubt of doubtsOf(booking)) warn(cli, doubt)
    if (booking.kind === 'booked') noteSchedule(cli, booking, key)
    if (booking.kind === 'known') note(cli, 'It is on record already: nothing was changed.')
  })
}

function doubtsOf({ execution, trade, doubts }: Booking & { kind: 'booked' }): string[] {
  const { odd, market, planCreatedAt } = doubts
  const { report } = trade
  const said: string[] = []
  if (odd !== null && isFill(report)) {
    const amounts = `${formatUsd(report.usdAmount)} USD for ${formatBtc(report.btcAmount)} BTC`
    const than =
      market === null
        ? 'which is outside any plausible range'
        : `while the market was at ${formatPrice(market)}`
    const mend = `tranche trade adjust ${execution.executionId}`
    said.push(
      `${amounts} is a price of ${formatPrice(odd.price)}, ${than}: if a figure is wrong, correct it with \`${mend}\``,
    )
  }
  if (report.executedAt !== null && report.executedAt < planCreatedAt)
    said.push(
      `plan ${execution.partnerPlanId} was created on ${formatInstant(planCreatedAt)}: is the date right?`,
    )
  return said
}

const bookedDetail = ({ execution, trade, window }: Booking & { kind: 'booked' }) => {
  const { recorded_at: _, failure_reason: __, ...detail } = tradeJson(trade)
  return {
    partner_plan_id: execution.partnerPlanId,
    ...detail,
    window_start: formatInstant(window.start),
    window_excess_usd: formatUsd(window.excess),
  }
}

const recordJson = (booking: Booking, { partner, env }: { partner: string; env: Environment }) => ({
  execution_id: booking.execution.executionId,
  partner_slug: partner,
  environment: env,
  partner_plan_id: booking.execution.partnerPlanId,
  ...tradeJson(booking.trade),
  already_recorded: booking.kind === 'known',
})
