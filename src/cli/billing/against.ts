// billing reconcile --against: a partner's own list of orders compared with the ledger, and what to do about each
// order that differs.

import { createReadStream, openSync } from 'node:fs'
import {
  type Comparison,
  compareOrders,
  type FoundOrder,
  ORDER_FINDINGS,
  type OrderFinding,
  type OrderSide,
  type OrderSums,
  UNKNOWN_MAX,
} from '../../billing/against.ts'
import type { CsvForm } from '../../billing/csv.ts'
import { type OrderColumns, orderRows } from '../../billing/partner-orders.ts'
import { executedAtOf, isFill, type Trade } from '../../core/confirmation.ts'
import { type Adjustment, amountsOf, ordersAdjusted } from '../../core/corrections/adjustment.ts'
import { type Btc, formatBtc, formatUsd, type Usd } from '../../core/money.ts'
import { type Environment, type Tenant, tenantJson } from '../../core/partner.ts'
import { unreadable } from '../../core/problem.ts'
import { counted, grouped } from '../../core/text.ts'
import { formatInstant, monthOf } from '../../core/time.ts'
import type { ExecutionRecord, Store } from '../../store/store.ts'
import { commandLine, tenantNamed } from '../command.ts'
import type { Cli } from '../context.ts'
import { EXIT } from '../exit-codes.ts'
import { type Column, layTable, note, print, write } from '../terminal.ts'
import { fixPeriods, noteStages } from './reports.ts'

export type AgainstOptions = {
  against: string
  columnOrder?: string
  columnUsd?: string
  columnBtc?: string
  columnFee?: string
  columnPlan?: string
  csv: CsvForm
}

/** The most orders that are looked up in the whole ledger, to say where they are. */
const LOOKED_UP_MAX = 10_000
const ROWS_PER_PAGE = 500

export async function compareWith(
  cli: Cli,
  store: Store,
  { slug, environment, months }: { slug: string; environment: Environment; months: readonly string[] },
  options: AgainstOptions & { text: AsyncIterable<string> },
): Promise<void> {
  const tenant = await tenantNamed(store, slug, environment)
  const periods = await fixPeriods(cli, store, { months, filter: { slug, environment } })
  noteStages(cli, periods)
  const file = options.against === '-' ? 'stdin' : options.against
  const reading = { ...options.csv, file, columns: columnsOf(options), partnerSlug: slug, environment }
  const rows = orderRows(options.text, reading)
  const comparison = await compareOrders(store, { tenant, periods }, rows)
  const ok = ORDER_FINDINGS.every((finding) => comparison.found[finding].orders === 0)
  const whose = { tenant, months, file, final: periods.every(({ final }) => final) }
  await showComparison(cli, store, { ...whose, ok, comparison })
  if (!ok) cli.exitWith(EXIT.found)
}

function columnsOf(given: AgainstOptions): Partial<Record<keyof OrderColumns, string>> {
  const named = {
    order: given.columnOrder,
    usd: given.columnUsd,
    btc: given.columnBtc,
    fee: given.columnFee,
    plan: given.columnPlan,
  } satisfies Record<keyof OrderColumns, string | undefined>
  return Object.fromEntries(Object.entries(named).filter(([, name]) => name !== undefined))
}

/** Opens a file or a pipe at once; `-` is stdin. Throws file_not_found, bad_file. */
export function openOrders(cli: Cli, file: string): AsyncGenerator<string> {
  if (file === '-') return textOf(cli.streams.in, 'stdin')
  try {
    return textOf(createReadStream(file, { fd: openSync(file, 'r'), highWaterMark: 256 * 1024 }), file)
  } catch (error) {
    throw unreadable(file, error)
  }
}

async function* textOf(stream: NodeJS.ReadableStream, file: string): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  try {
    for await (const chunk of stream)
      yield decoder.decode(typeof chunk === 'string' ? Buffer.from(chunk) : chunk, { stream: true })
    yield decoder.decode()
  } catch (error) {
    throw unreadable(file, error)
  }
}

type Shown = {
  tenant: Tenant
  months: readonly string[]
  file: string
  final: boolean
  ok: boolean
  comparison: Comparison
}

async function showComparison(cli: Cli, store: Store, shown: Shown): Promise<void> {
  const { comparison, ok } = shown
  const { json } = cli.globals()
  if (ok && !json) print(cli, null, () => agreement(shown))
  if (json) await write(cli.streams.out, `${JSON.stringify(headJson(shown)).slice(0, -1)},"findings":[`)
  const table = ok || json ? null : await layTable(COLUMNS)
  let printed = 0
  for await (const page of pagesOf(cli, store, shown)) {
    if (table) await write(cli.streams.out, `${table(page)}\n`)
    for (const row of json ? page : []) {
      await write(cli.streams.out, `${printed === 0 ? '' : ',\n'}${JSON.stringify(row)}`)
      printed += 1
    }
  }
  if (json) await write(cli.streams.out, ']}\n')
  else if (!ok) print(cli, null, () => `\n${summary(shown)}`)
  const { corrections, unlistedRows } = comparison
  const unlisted = `${counted(unlistedRows, 'row')} after the first ${grouped(UNKNOWN_MAX)} orders that are not known here`
  if (unlistedRows > 0)
    note(cli, `Not listed: ${unlisted}; the sums have them. Is it the right partner and month?`)
  const earlier = `${counted(corrections.orders, 'correction')} of orders recorded in earlier months`
  if (corrections.orders > 0) note(cli, `Not compared: ${earlier} (${amounts(corrections)}).`)
}

/** The findings as printed. The first of them are looked up in the whole ledger. */
async function* pagesOf(
  cli: Cli,
  store: Store,
  { comparison, tenant, months }: Shown,
): AsyncGenerator<FindingJson[]> {
  let page: FindingJson[] = []
  let lookedUp = 0
  for (const found of comparison.findings()) {
    const isLookedUp = found.order !== '' && lookedUp < LOOKED_UP_MAX
    if (isLookedUp) lookedUp += 1
    const explanation = isLookedUp ? await explained(cli, store, { found, tenant, months }) : NOTHING
    page.push(findingJson(found, explanation))
    if (page.length < ROWS_PER_PAGE) continue
    yield page
    page = []
  }
  if (page.length > 0) yield page
  if (lookedUp === LOOKED_UP_MAX)
    note(cli, `Only the first ${counted(LOOKED_UP_MAX, 'order')} were looked up in other months.`)
}

const usdOf = (amount: bigint): string => formatUsd(amount as Usd)
const btcOf = (amount: bigint): string => formatBtc(amount as Btc)

const sideJson = (side: OrderSide | null) =>
  side && {
    usd_amount: usdOf(side.usd),
    btc_amount: btcOf(side.btc),
    partner_fee_usd: side.fee === null ? null : usdOf(side.fee),
    partner_plan_id: side.plan,
  }

const FIELD_NAMES = {
  usd: 'usd_amount',
  btc: 'btc_amount',
  fee: 'partner_fee_usd',
  plan: 'partner_plan_id',
} as const satisfies Record<FoundOrder['fields'][number], keyof NonNullable<ReturnType<typeof sideJson>>>

/** `mend` is the command that settles it, if there is one. */
type Explanation = { remark: string | null; mend: string | null }
const NOTHING: Explanation = { remark: null, mend: null }

function findingJson(found: FoundOrder, { remark, mend }: Explanation) {
  const remarks = [
    found.finding === 'without_id' ? 'has no order id' : null,
    found.rows > 1 ? `${counted(found.rows, 'row')} of the file, added up` : null,
    found.isCorrectedSince ? 'corrected here since' : null,
    remark,
  ].filter((one) => one !== null)
  return {
    finding: found.finding,
    partner_order_id: found.order === '' ? null : found.order,
    line: found.line,
    rows: found.rows,
    ours: sideJson(found.ours),
    theirs: sideJson(found.theirs),
    differs_in: found.fields.map((field) => FIELD_NAMES[field]),
    remark: remarks.length === 0 ? null : remarks.join('; '),
    mend,
  }
}
type FindingJson = ReturnType<typeof findingJson>

const FINDING_NAMES: Record<OrderFinding, string> = {
  missing_here: 'missing here',
  missing_there: 'missing there',
  different: 'different',
  without_id: 'no order id',
}

const differing = (row: FindingJson, side: 'ours' | 'theirs'): string =>
  (['partner_fee_usd', 'partner_plan_id'] as const)
    .filter((field) => row.differs_in.includes(field))
    .map((field) => `${side} ${field} ${row[side]?.[field] ?? 'none'}`)
    .join(', ')

const COLUMNS: Column<FindingJson>[] = [
  { title: 'WHAT', of: (row) => FINDING_NAMES[row.finding] },
  { title: 'ORDER', of: (row) => row.partner_order_id },
  { title: 'LINE', of: (row) => row.line, right: true },
  { title: 'OUR USD', of: (row) => row.ours?.usd_amount ?? null, right: true },
  { title: 'THEIR USD', of: (row) => row.theirs?.usd_amount ?? null, right: true },
  { title: 'OUR BTC', of: (row) => row.ours?.btc_amount ?? null, right: true },
  { title: 'THEIR BTC', of: (row) => row.theirs?.btc_amount ?? null, right: true },
  {
    title: 'REMARK',
    of: (row) =>
      [differing(row, 'ours'), differing(row, 'theirs'), row.remark, row.mend && `> ${row.mend}`]
        .filter((part) => part !== null && part !== '')
        .join('; ') || null,
  },
]

const sumsJson = ({ orders, usd, btc }: OrderSums) => ({
  orders,
  usd_amount: usdOf(usd),
  btc_amount: btcOf(btc),
})

const headJson = ({ ok, tenant, months, file, final, comparison }: Shown) => {
  const { ours, theirs, corrections, found } = comparison
  return {
    ok,
    ...tenantJson(tenant),
    from: months[0] ?? null,
    to: months.at(-1) ?? null,
    final,
    file,
    ours: sumsJson(ours),
    theirs: sumsJson(theirs),
    difference: { usd_amount: usdOf(ours.usd - theirs.usd), btc_amount: btcOf(ours.btc - theirs.btc) },
    ...(Object.fromEntries(ORDER_FINDINGS.map((finding) => [finding, sumsJson(found[finding])])) as Record<
      OrderFinding,
      ReturnType<typeof sumsJson>
    >),
    corrections_of_earlier_orders: sumsJson(corrections),
    rows_not_listed: comparison.unlistedRows,
  }
}

const amounts = ({ usd, btc }: { usd: bigint; btc: bigint }): string => `${usdOf(usd)} USD, ${btcOf(btc)} BTC`
const sumsInWords = (sums: OrderSums): string => `${counted(sums.orders, 'order')}, ${amounts(sums)}`

const titleOf = ({ tenant, months }: Shown): string => {
  const [first, last] = [months[0], months.at(-1)]
  return `${first === last ? first : `${first} to ${last}`}: ${tenant.partnerSlug} ${tenant.environment}`
}

const agreement = (shown: Shown): string =>
  `${titleOf(shown)} and ${shown.file} agree (${sumsInWords(shown.comparison.ours)}).`

function summary(shown: Shown): string {
  const { ours, theirs, found } = shown.comparison
  const kinds = ORDER_FINDINGS.filter((finding) => found[finding].orders > 0).map(
    (finding) => `${FINDING_NAMES[finding]}: ${sumsInWords(found[finding])}`,
  )
  return [
    `${titleOf(shown)} has ${sumsInWords(ours)}.`,
    `${shown.file} has ${sumsInWords(theirs)}.`,
    `${kinds.join('; ')}. Ours less theirs: ${amounts({ usd: ours.usd - theirs.usd, btc: ours.btc - theirs.btc })}.`,
  ].join('\n')
}

type Question = { found: FoundOrder; tenant: Tenant; months: readonly string[] }

async function explained(cli: Cli, store: Store, question: Question): Promise<Explanation> {
  const { found, tenant } = question
  // No command: recording it would book the purchase a second time.
  if (found.twin !== null) {
    const where = found.ours ? 'the file' : 'the ledger'
    const remark = `same amounts as order ${found.twin} of ${where}: a spreadsheet may have changed the id`
    return { remark, mend: null }
  }
  const { partnerSlug: slug, environment } = tenant
  const explanations: Explanation[] = []
  for (const { execution } of await store.findByOrder({ slug, environment }, found.order)) {
    const record = await store.findExecution(execution.executionId)
    if (record) explanations.push(...placesOf(cli, record, question))
  }
  for (const { executionId, late } of await store.findUnknownFills(tenant, found.order)) {
    const plan = ['--report', `${late.reportId}`, '--plan', found.theirs?.plan ?? 'PLAN']
    explanations.push({
      remark: `late fill ${late.reportId} of ${executionId}, which is not known here, is kept and not accepted`,
      mend: commandLine(cli.self(), ['tranche', 'execution', 'accept-late', executionId, ...plan]),
    })
  }
  if (explanations.length === 0) return found.theirs && !found.ours ? unknownOrder(cli, question) : NOTHING
  return {
    remark: explanations.map(({ remark }) => remark).join('; '),
    mend: explanations.find(({ mend }) => mend !== null)?.mend ?? null,
  }
}

/** An order unknown on both sides. Values that the operator must fill in are in capitals. */
function unknownOrder(cli: Cli, { found, tenant }: Question): Explanation {
  const { theirs, order } = found
  const remark = 'not known here: ask the partner to send its confirmation again, or record it'
  if (theirs === null || theirs.usd <= 0n) return { remark, mend: null }
  const { partnerSlug: slug, environment } = tenant
  const whose = ['--partner', slug, '--env', environment, '--plan', theirs.plan ?? 'PLAN']
  const what = ['--order', order, '--usd', usdOf(theirs.usd), '--btc', btcOf(theirs.btc)]
  const fee = theirs.fee === null ? [] : ['--fee', usdOf(theirs.fee)]
  const argv = ['tranche', 'trade', 'record', ...whose, ...what, ...fee, '--at', 'TIME', '--reason', 'WHY']
  return { remark, mend: commandLine(cli.self(), argv) }
}

/** The places of an order in an execution: a trade, further purchases, and reports that wait for a decision. */
function placesOf(cli: Cli, record: ExecutionRecord, { found, months }: Question): Explanation[] {
  const { execution, trade, adjustments, lateFills } = record
  const { executionId } = execution
  const isHere = found.finding === 'different' || found.finding === 'missing_there'
  const recorded = (at: Parameters<typeof monthOf>[0]): string =>
    months.includes(monthOf(at)) ? `execution ${executionId}` : `recorded in ${monthOf(at)} as ${executionId}`
  const places: Explanation[] = []
  if (trade && trade.report.partnerOrderId === found.order) {
    const executedAt = executedAtOf(trade)
    const executed = executedAt === null || !isHere ? '' : `, executed ${formatInstant(executedAt)}`
    // A failure that nobody has corrected is billed in no month. A further purchase is an order of its own.
    const corrections = adjustments.filter((one) => (one.partnerOrderId ?? found.order) === found.order)
    const month = monthOf(trade.recordedAt)
    if (isFill(trade.report) || amountsOf(trade, corrections).usd !== 0n)
      places.push({ remark: `${recorded(trade.recordedAt)}${executed}`, mend: null })
    else
      places.push({
        remark: `execution ${executionId} is recorded as ${trade.report.status}${months.includes(month) ? '' : `, in ${month}`}`,
        mend: adjusting(cli, executionId, found),
      })
  }
  for (const one of adjustments)
    if (one.partnerOrderId === found.order)
      places.push({ remark: `${recorded(one.recordedAt)}, as a further purchase`, mend: null })
  const others = trade ? adjustedWith(trade, adjustments, found.order) : []
  if (others.length > 0)
    places.push({ remark: `adjusted together with ${others.join(', ')}: compare their sum`, mend: null })
  for (const late of lateFills) {
    if (late.report.partnerOrderId !== found.order || late.acceptedAt !== null) continue
    const argv = ['tranche', 'execution', 'accept-late', executionId, '--report', `${late.reportId}`]
    if (late.decidedAt === null)
      places.push({
        remark: `late fill ${late.reportId} of ${executionId} is kept and not accepted`,
        mend: commandLine(cli.self(), argv),
      })
    else if (!isHere)
      places.push({
        remark: `late fill ${late.reportId} of ${executionId} was dismissed${late.decisionReason === null ? '' : `: ${late.decisionReason}`}`,
        mend: null,
      })
  }
  return places
}

/** The other orders in a sum that an operator gave for all of them, whose shares are unknown. */
function adjustedWith(trade: Trade, adjustments: readonly Adjustment[], order: string): string[] {
  const together = adjustments.map((one, at) => ordersAdjusted(trade, adjustments.slice(0, at), one).orders)
  const orders = together.filter((some) => some.length > 1 && some.includes(order)).flat()
  return [...new Set(orders)].filter((one) => one !== order)
}

/** Values that the operator must fill in are in capitals. */
function adjusting(cli: Cli, executionId: string, { theirs }: FoundOrder): string | null {
  if (theirs === null) return null
  const amounts = ['--usd', usdOf(theirs.usd), '--btc', btcOf(theirs.btc)]
  return commandLine(cli.self(), ['tranche', 'trade', 'adjust', executionId, ...amounts, '--reason', 'WHY'])
}
