// Reconciling a month: the same figures computed in three ways, and every trade against its execution.

import { isFill } from '../core/confirmation.ts'
import { tradesIn } from '../core/fees.ts'
import { type Btc, formatBtc, formatUsd, type Usd } from '../core/money.ts'
import { type FixedPeriod, periodOf } from '../core/month.ts'
import type { Tenant } from '../core/partner.ts'
import { counted } from '../core/text.ts'
import type { CheckStore, Fault } from '../store/monitoring.ts'
import type { TenantFilter, TierStore, TradeLine } from '../store/store.ts'
import { type BillingStore, bill, chargeFaults, pagesAfter, type Stored, totalOf } from './statement.ts'

const TRADES_PER_READ = 2_000

type ReconcileStore = BillingStore &
  CheckStore &
  Pick<TierStore, 'listTiers' | 'listTierOverridesAfter' | 'listMinimumEnds'>

type Sums = { trades: number; volume: bigint; btc: bigint; partnerFees: bigint }

export type ReconciledMonth = {
  month: string
  final: boolean
  trades: number
  volume: Usd
  btc: Btc
  findings: Fault[]
}

/** `faults` concern the whole ledger, whatever the months. */
type Reconciled = { tenants: number; months: ReconciledMonth[]; faults: Fault[] }

/** Proves users = trades = summary, the charge by the stored tiers, and that trades and executions match 1:1. */
export async function reconcile(
  store: ReconcileStore,
  periods: readonly FixedPeriod[],
  filter: TenantFilter,
): Promise<Reconciled> {
  const tenants = await store.listTenants(filter, null)
  const faults = (await store.findFaults(ONE_TO_ONE)).filter(({ kind }) => ONE_TO_ONE.includes(kind))
  const months: ReconciledMonth[] = []
  for (const period of periods) months.push(await reconcileMonth(store, { tenants, period, filter }))
  return { tenants: tenants.length, months, faults }
}

async function reconcileMonth(
  store: ReconcileStore,
  { tenants, period, filter }: { tenants: readonly Tenant[]; period: FixedPeriod; filter: TenantFilter },
): Promise<ReconciledMonth> {
  const byTrades = await sumTrades(store, period, filter)
  const { month, final } = period
  const sum = { month, final, trades: 0, volume: 0n, btc: 0n, findings: [] as Fault[] }
  for (const tenant of tenants) {
    const sums = byTrades.get(tenant.tenantId) ?? NOTHING
    sum.trades += sums.trades
    sum.volume += sums.volume
    sum.btc += sums.btc
    sum.findings.push(...(await compare(store, { tenant, period, sums })))
  }
  return sum as ReconciledMonth
}

/** The findings of `check` that concern trades, in the whole ledger: a changed row may have left its month. */
const ONE_TO_ONE = [
  'trade_changed',
  'execution_trade',
  'trade_amount',
  'trade_received',
  'execution_place',
  'foreign_key',
  'window_spent',
  'window_excess',
  'adjustment_changed',
  'adjustment_place',
  'adjustment_amount',
  'adjustment_report',
]
const NOTHING: Sums = { trades: 0, volume: 0n, btc: 0n, partnerFees: 0n }

async function compare(
  store: ReconcileStore,
  { tenant, period, sums }: { tenant: Tenant; period: FixedPeriod; sums: Sums },
): Promise<Fault[]> {
  const { statement, users } = await bill(store, tenant, period)
  const { activity, fees } = statement
  const byUsers = totalOf(users)
  const place = `${tenant.partnerSlug} ${tenant.environment} ${period.month}`
  const unequal = [
    ['summary', { ...activity, trades: tradesIn(activity) }],
    ['users', byUsers],
  ] as const
  const findings = unequal
    .filter(([, others]) => !same(sums, others))
    .map(([name, others]) => ({
      kind: `${name}_differ`,
      subject: place,
      message: `${name} say ${inWords(others)}, the trades add up to ${inWords(sums)}`,
    }))
  // A minimum charged for a month without an active user cannot be shared among users.
  if (users.length > 0 && byUsers.fee !== fees.total) {
    const message = `the shares add up to ${formatUsd(byUsers.fee)}, the statement says ${formatUsd(fees.total)}`
    findings.push({ kind: 'fees_differ', subject: place, message })
  }
  const issued = await store.findInvoiceOf(tenant.partnerSlug, period.month)
  if (issued && tenant.environment === 'live' && issued.net !== fees.total) {
    const message = `${issued.number} was issued with ${formatUsd(issued.net)}, the statement says ${formatUsd(fees.total)}`
    findings.push({ kind: 'invoice_differs', subject: place, message })
  }
  const wrong = chargeFaults(statement, await storedTerms(store, tenant, period))
  return [...findings, ...wrong.map((fault) => ({ ...fault, subject: place }))]
}

const BEGINNING = '0000-00'

/** The terms that decide a month's charges, read in another way than the statement does. */
async function storedTerms(
  store: ReconcileStore,
  { partnerSlug }: Tenant,
  { month, end }: FixedPeriod,
): Promise<Stored> {
  const whole = periodOf(month)
  const since = (await store.findPartner(partnerSlug))?.createdAt
  return {
    tiers: await store.listTiers(),
    overrides: await store.listTierOverridesAfter(partnerSlug, BEGINNING),
    minimumEnds: await store.listMinimumEnds(partnerSlug),
    isDue: since !== undefined && since < whole.end && end > whole.start,
  }
}

/** Adds up the trades and adjustments one by one, in another way than the statement does. */
async function sumTrades(
  store: BillingStore,
  period: FixedPeriod,
  filter: TenantFilter,
): Promise<Map<number, Sums>> {
  const sums = new Map<number, Sums>()
  const pages = pagesAfter<TradeLine>(TRADES_PER_READ, (page) => store.readTradeLines(period, filter, page))
  for await (const page of pages)
    for (const { tenant, entry } of page) {
      const sum = sums.get(tenant.tenantId) ?? { ...NOTHING }
      sums.set(tenant.tenantId, sum)
      if (entry.kind === 'adjustment') {
        sum.volume += entry.adjustment.usd
        sum.btc += entry.adjustment.btc
        sum.partnerFees += entry.adjustment.fill?.partnerFee ?? 0n
      } else if (isFill(entry.report)) {
        sum.trades += 1
        sum.volume += entry.report.usdAmount
        sum.btc += entry.report.btcAmount
        sum.partnerFees += entry.report.partnerFee ?? 0n
      }
    }
  return sums
}

const same = (a: Sums, b: Sums): boolean =>
  a.trades === b.trades && a.volume === b.volume && a.btc === b.btc && a.partnerFees === b.partnerFees

const inWords = (sums: Sums): string =>
  `${counted(Number(sums.trades), 'trade')}, ${formatUsd(sums.volume as Usd)} USD, ${formatBtc(sums.btc as Btc)} BTC`
