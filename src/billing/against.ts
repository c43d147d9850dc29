// The orders of a month compared with the partner's own list: orders that one side lacks, and orders that differ.

import { isFill } from '../core/confirmation.ts'
import { EXACT_PER_UNIT, LEDGER_MAX, roundExact } from '../core/money.ts'
import type { FixedPeriod } from '../core/month.ts'
import type { Tenant } from '../core/partner.ts'
import { Problem } from '../core/problem.ts'
import { LATEST } from '../core/time.ts'
import type { AdjustmentLine, MonthStore, TradeLine } from '../store/store.ts'
import { unguarded } from './csv.ts'
import { adjustmentPages } from './export.ts'
import type { OrderRow } from './partner-orders.ts'
import { pagesAfter } from './statement.ts'

const LINES_PER_READ = 2_000

type AgainstStore = Pick<MonthStore, 'readTenantLines' | 'readAdjustmentLines'>

export const ORDER_FINDINGS = ['missing_here', 'missing_there', 'different', 'without_id'] as const
export type OrderFinding = (typeof ORDER_FINDINGS)[number]

/** The figures of an order on one side. `fee` and `plan` are null where that side does not give them. */
export type OrderSide = { usd: bigint; btc: bigint; fee: bigint | null; plan: string | null }

/** `line` is the first of its `rows` in the file; null for an order that the file lacks. */
export type FoundOrder = {
  finding: OrderFinding
  order: string
  line: number | null
  rows: number
  ours: OrderSide | null
  theirs: OrderSide | null
  fields: ('usd' | 'btc' | 'fee' | 'plan')[]
  /** Corrected after the compared months; `ours` includes the corrections. */
  isCorrectedSince: boolean
  /** An order with equal amounts on the other side, under an id that a spreadsheet may have made of this one. */
  twin: string | null
}

export type OrderSums = { orders: number; usd: bigint; btc: bigint }

export type Comparison = {
  ours: OrderSums
  theirs: OrderSums
  /** Corrections, in these months, of orders recorded earlier: they are billed, and not compared. */
  corrections: OrderSums
  /** The number and the sums of each finding, on the side that has the orders; ours less theirs where both do. */
  found: Record<OrderFinding, OrderSums>
  /** Rows after the first `UNKNOWN_MAX` unknown orders: counted only in the sums of `missing_here`. */
  unlistedRows: number
  /** Generated one by one, first in the order of the ledger, then in that of the file. */
  findings: () => Generator<FoundOrder>
}

/** The most orders kept that only the file has. More of them are probably another partner's, or another month's. */
export const UNKNOWN_MAX = 100_000

/** Compares the orders of consecutive periods. Ours include all their corrections, whenever they were made. */
export async function compareOrders(
  store: AgainstStore,
  { tenant, periods }: { tenant: Tenant; periods: readonly FixedPeriod[] },
  rows: AsyncIterable<OrderRow[]>,
): Promise<Comparison> {
  const book = createBook()
  const corrections = none()
  for (const period of periods) {
    const read = (page: { after: TradeLine | null; limit: number }) =>
      store.readTenantLines(tenant, period, page)
    for await (const lines of pagesAfter(LINES_PER_READ, read))
      for (const line of lines) enter(book, line, corrections)
  }
  const last = periods.at(-1)
  if (last)
    for await (const lines of correctionsAfter(store, tenant, last))
      for (const line of lines) enterSince(book, line)
  for await (const batch of rows) for (const row of batch) enterTheirs(book, row)
  return { corrections, ...resultOf(book) }
}

const correctionsAfter = (
  store: AgainstStore,
  { partnerSlug: slug, environment }: Tenant,
  { month, end }: FixedPeriod,
): AsyncGenerator<AdjustmentLine[]> =>
  adjustmentPages({
    store,
    period: { month, start: end, end: LATEST, final: false },
    filter: { slug, environment },
  })

/** Adds a line of the ledger. A correction of an order recorded earlier goes only into `corrections`. */
function enter(book: Book, { entry, partnerPlanId: plan }: TradeLine, corrections: OrderSums): void {
  if (entry.kind === 'adjustment') {
    const { adjustment, partnerOrderId } = entry
    const { usd, btc, fill } = adjustment
    const isFurther = adjustment.partnerOrderId !== null
    if (isFurther || hasOurs(book, partnerOrderId))
      enterOurs(book, partnerOrderId, { usd, btc, fee: fill?.partnerFee ?? null, plan })
    else sum(corrections, { usd, btc })
  } else if (isFill(entry.report)) {
    const { partnerOrderId, usdAmount: usd, btcAmount: btc, partnerFee: fee } = entry.report
    enterOurs(book, partnerOrderId, { usd, btc, fee, plan })
  } else flag(book, placeOf(book, entry.report.partnerOrderId), FAILED)
}

const none = (): OrderSums => ({ orders: 0, usd: 0n, btc: 0n })

// Both sides of a million orders, in columns: as objects they would take four times the memory.

const OURS = 1
const FAILED = 2
const CORRECTED_SINCE = 4
const HAS_FEE = { our: 8, their: 16 }

const AMOUNTS = ['theirUsd', 'theirBtc', 'theirFee', 'ourUsd', 'ourBtc', 'ourFee'] as const
/** The parts of amounts below a unit, in units of 1e-18: the rows of an order are added up before they are rounded. */
const RESTS = ['theirUsdRest', 'theirBtcRest', 'theirFeeRest'] as const
const COLUMNS = [...AMOUNTS, ...RESTS] as const
type AmountColumn = (typeof COLUMNS)[number]
type Whose = 'our' | 'their'
type Amount = 'Usd' | 'Btc' | 'Fee'

const FIRST_ROOM = 1_024

function createColumns() {
  let room = FIRST_ROOM
  const amounts = Object.fromEntries(COLUMNS.map((name) => [name, new BigInt64Array(room)])) as Record<
    AmountColumn,
    BigInt64Array<ArrayBuffer>
  >
  const numbers = {
    flags: new Int32Array(room),
    line: new Int32Array(room),
    rows: new Int32Array(room),
    theirPlan: new Int32Array(room),
    ourPlan: new Int32Array(room),
  }
  return {
    amounts,
    numbers,
    reach(count: number): void {
      if (count <= room) return
      room *= 2
      for (const name of COLUMNS) amounts[name] = new BigInt64Array(amounts[name].buffer.transfer(8 * room))
      for (const name of Object.keys(numbers) as (keyof typeof numbers)[])
        numbers[name] = new Int32Array(numbers[name].buffer.transfer(4 * room))
    },
    /** Adds an amount, in units for our side and in units of 1e-18 for the file. */
    enter(whose: Whose, kind: Amount, at: number, amount: bigint): void {
      if (whose === 'our') {
        add(`our${kind}`, at, amount)
        return
      }
      const rests = amounts[`their${kind}Rest`]
      const whole = amount + (rests[at] ?? 0n)
      const rest = ((whole % EXACT_PER_UNIT) + EXACT_PER_UNIT) % EXACT_PER_UNIT
      rests[at] = rest
      add(`their${kind}`, at, (whole - rest) / EXACT_PER_UNIT)
    },
    amountAt(whose: Whose, kind: Amount, at: number): bigint {
      const units = amounts[`${whose}${kind}`][at] ?? 0n
      if (whose === 'our') return units
      return roundExact(units * EXACT_PER_UNIT + (amounts[`their${kind}Rest`][at] ?? 0n))
    },
  }

  function add(name: AmountColumn, at: number, amount: bigint): void {
    const sum = (amounts[name][at] ?? 0n) + amount
    if (sum > LEDGER_MAX || -sum > LEDGER_MAX)
      throw new Problem('bad_file', 'The amounts of one order add up to more than any purchase.')
    amounts[name][at] = sum
  }
}

type Book = {
  /** The index of each order in the columns. */
  places: Map<string, number>
  columns: ReturnType<typeof createColumns>
  plans: ReturnType<typeof createNames>
  withoutId: { line: number; usd: bigint; btc: bigint }[]
  /** The number of orders that only the file has, and its rows after `UNKNOWN_MAX` of them, in units of 1e-18. */
  unknown: number
  unlisted: OrderSums
}

const createBook = (): Book => ({
  places: new Map(),
  columns: createColumns(),
  plans: createNames(),
  withoutId: [],
  unknown: 0,
  unlisted: none(),
})

function placeOf({ places, columns }: Book, order: string): number {
  const known = places.get(order)
  if (known !== undefined) return known
  const place = places.size
  // A copy, because a slice of a text keeps the whole text in memory.
  places.set(Buffer.from(order).toString(), place)
  columns.reach(place + 1)
  return place
}

const flagsAt = ({ columns }: Book, at: number): number => columns.numbers.flags[at] ?? 0

function flag(book: Book, at: number, flags: number): void {
  book.columns.numbers.flags[at] = flagsAt(book, at) | flags
}

/** Several rows of one order add up: a venue may list each of its fills. */
function enterTheirs(book: Book, { line, order: cell, amounts, fee, plan }: OrderRow): void {
  const order = book.places.has(cell) ? cell : unguarded(cell)
  if (!book.places.has(order)) {
    if (amounts === null || isNothing(amounts)) return
    if (book.unknown === UNKNOWN_MAX) {
      sum(book.unlisted, amounts)
      return
    }
    book.unknown += 1
    if (order === '') {
      book.withoutId.push({ line, usd: roundExact(amounts.usd), btc: roundExact(amounts.btc) })
      return
    }
  }
  const at = placeOf(book, order)
  const { numbers } = book.columns
  numbers.line[at] ||= line
  numbers.rows[at] = (numbers.rows[at] ?? 0) + 1
  if (amounts !== null) enterSide(book, at, 'their', { ...amounts, fee, plan })
}

function enterOurs(book: Book, order: string, side: OrderSide): void {
  const at = placeOf(book, order)
  flag(book, at, OURS)
  enterSide(book, at, 'our', side)
}

function enterSide(book: Book, at: number, whose: Whose, { usd, btc, fee, plan }: OrderSide): void {
  const { columns, plans } = book
  columns.enter(whose, 'Usd', at, usd)
  columns.enter(whose, 'Btc', at, btc)
  if (plan !== null) columns.numbers[`${whose}Plan`][at] = plans.numberOf(plan)
  if (fee === null) return
  flag(book, at, HAS_FEE[whose])
  columns.enter(whose, 'Fee', at, fee)
}

/** Whether the trade of an order was recorded in the periods. */
function hasOurs(book: Book, order: string): boolean {
  const at = book.places.get(order)
  return at !== undefined && (flagsAt(book, at) & (OURS | FAILED)) !== 0
}

/** A further purchase is an order of its own, of a later month. */
function enterSince(book: Book, { adjustment, partnerOrderId }: AdjustmentLine): void {
  if (!hasOurs(book, partnerOrderId) || adjustment.partnerOrderId !== null) return
  const { usd, btc, fill } = adjustment
  enterOurs(book, partnerOrderId, { usd, btc, fee: fill?.partnerFee ?? null, plan: null })
  flag(book, placeOf(book, partnerOrderId), CORRECTED_SINCE)
}

function resultOf(book: Book): Omit<Comparison, 'corrections'> {
  const sums = { ours: none(), theirs: none() }
  const found = Object.fromEntries(ORDER_FINDINGS.map((name) => [name, none()])) as Comparison['found']
  for (const { finding, ours, theirs } of comparedIn(book)) {
    if (ours) sum(sums.ours, ours)
    if (theirs) sum(sums.theirs, theirs)
    if (finding) sum(found[finding], difference(ours, theirs))
  }
  for (const row of book.withoutId) {
    sum(sums.theirs, row)
    sum(found.without_id, row)
  }
  const { orders, ...exact } = book.unlisted
  const more = { orders, usd: roundExact(exact.usd), btc: roundExact(exact.btc) }
  for (const each of [sums.theirs, found.missing_here]) sum(each, more)
  return { ...sums, found, unlistedRows: orders, findings: () => findingsOf(book) }
}

function* findingsOf(book: Book): Generator<FoundOrder> {
  for (const { line, usd, btc } of book.withoutId)
    yield { ...NO_ID, line, theirs: { ...NO_ID.theirs, usd, btc } }
  const { numbers } = book.columns
  const twins = twinsOf(book)
  for (const { at, finding, ...sides } of comparedIn(book)) {
    if (!finding) continue
    const [line, rows] = [numbers.line[at] || null, numbers.rows[at] ?? 0]
    const isCorrectedSince = (flagsAt(book, at) & CORRECTED_SINCE) !== 0
    const twin = twins.get(sides.order) ?? null
    yield { finding, ...sides, line, rows, isCorrectedSince, twin }
  }
}

/** Pairs of orders that one side lacks, with equal amounts and ids that a spreadsheet may have confused. */
function twinsOf(book: Book): Map<string, string> {
  const ofAmounts = new Map<string, string[]>()
  const twins = new Map<string, string>()
  const keyOf = ({ usd, btc }: OrderSide): string => `${usd} ${btc}`
  for (const { order, ours, theirs } of comparedIn(book)) {
    if (!ours || theirs) continue
    const alike = ofAmounts.get(keyOf(ours))
    if (alike) alike.push(order)
    else ofAmounts.set(keyOf(ours), [order])
  }
  // The file lacks nothing, so no order of it can be a twin.
  if (ofAmounts.size === 0) return twins
  for (const { order, ours, theirs } of comparedIn(book)) {
    if (!theirs || ours) continue
    const alike = ofAmounts.get(keyOf(theirs))
    const twin = alike?.find((other) => !twins.has(other) && mayBeSame(order, other))
    if (twin === undefined) continue
    twins.set(order, twin)
    twins.set(twin, order)
  }
  return twins
}

/** Whether a spreadsheet may have changed one id into the other: without its zeros, in another case, or as a number. */
function mayBeSame(one: string, other: string): boolean {
  const [a, b] = [plainId(one), plainId(other)]
  return a === b || isWrittenAs(a, b) || isWrittenAs(b, a)
}

const plainId = (order: string): string =>
  unguarded(order)
    .replace(/\s+/g, '')
    .toLowerCase()
    .replace(/^0+(?=.)/, '')

/** The number of digits that a spreadsheet keeps. */
const DIGITS_KEPT = 15

/** Whether `written` is the number `digits` with an exponent, or with zeros in place of its last digits. */
function isWrittenAs(written: string, digits: string): boolean {
  if (!/^\d+$/.test(digits)) return false
  const [, whole, rest = '', exponent] = /^(\d+)(?:[.,](\d+))?e\+?(\d{1,3})$/.exec(written) ?? []
  if (whole === undefined)
    return (
      /^\d+$/.test(written) &&
      written.length === digits.length &&
      Number(written).toPrecision(DIGITS_KEPT) === Number(digits).toPrecision(DIGITS_KEPT) &&
      digits.length > DIGITS_KEPT
    )
  const places = Math.min(DIGITS_KEPT, whole.length + rest.length)
  return Number(`${whole}.${rest}e${exponent}`).toPrecision(places) === Number(digits).toPrecision(places)
}

/** Each order with its index in the columns, the sums of both sides, and the finding. */
function* comparedIn(book: Book) {
  let at = 0
  for (const order of book.places.keys()) {
    const [ours, theirs] = [sideOf(book, at, 'our'), sideOf(book, at, 'their')]
    const fields = ours && theirs ? FIELDS.filter((field) => differ(ours, theirs, field)) : []
    yield { order, at, finding: findingOf(ours, theirs, fields), ours, theirs, fields }
    at += 1
  }
}

/** An order whose sum is zero is not a purchase. */
function sideOf(book: Book, at: number, whose: Whose): OrderSide | null {
  const { numbers, amountAt } = book.columns
  const [usd, btc] = [amountAt(whose, 'Usd', at), amountAt(whose, 'Btc', at)]
  if (isNothing({ usd, btc })) return null
  const fee = (flagsAt(book, at) & HAS_FEE[whose]) === 0 ? null : amountAt(whose, 'Fee', at)
  return { usd, btc, fee, plan: book.plans.nameOf(numbers[`${whose}Plan`][at] ?? 0) }
}

function findingOf(
  ours: OrderSide | null,
  theirs: OrderSide | null,
  fields: readonly string[],
): OrderFinding | null {
  if (theirs && !ours) return 'missing_here'
  if (ours && !theirs) return 'missing_there'
  return fields.length > 0 ? 'different' : null
}

const isNothing = ({ usd, btc }: { usd: bigint; btc: bigint }): boolean => usd === 0n && btc === 0n

const FIELDS = ['usd', 'btc', 'fee', 'plan'] as const

/** The file need not give a fee or a plan. An unreported fee counts as none. */
function differ(ours: OrderSide, theirs: OrderSide, field: (typeof FIELDS)[number]): boolean {
  if (field === 'plan')
    return theirs.plan !== null && theirs.plan !== ours.plan && unguarded(theirs.plan) !== ours.plan
  if (field === 'fee') return theirs.fee !== null && theirs.fee !== (ours.fee ?? 0n)
  return theirs[field] !== ours[field]
}

const NO_ID = {
  finding: 'without_id',
  order: '',
  rows: 1,
  ours: null,
  theirs: { usd: 0n, btc: 0n, fee: null, plan: null },
  fields: [],
  isCorrectedSince: false,
  twin: null,
} satisfies Partial<FoundOrder>

function sum(sums: OrderSums, { orders = 1, usd, btc }: { orders?: number; usd: bigint; btc: bigint }): void {
  sums.orders += orders
  sums.usd += usd
  sums.btc += btc
}

const difference = (ours: OrderSide | null, theirs: OrderSide | null) =>
  ours && theirs
    ? { usd: ours.usd - theirs.usd, btc: ours.btc - theirs.btc }
    : (ours ?? theirs ?? { usd: 0n, btc: 0n })

/** Numbers names from 1 on: a partner has far fewer plans than orders. */
function createNames() {
  const names: (string | null)[] = [null]
  const numbers = new Map<string, number>()
  return {
    nameOf: (number: number): string | null => names[number] ?? null,
    numberOf(name: string): number {
      const known = numbers.get(name)
      if (known !== undefined) return known
      numbers.set(name, names.push(name) - 1)
      return names.length - 1
    },
  }
}
