// The orders of a month against the partner's own list of them: which ones one side lacks, and which ones differ.

import { isFill } from '../core/confirmation.ts'
import { LEDGER_MAX } from '../core/money.ts'
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

/** What is found of an order. */
export const ORDER_FINDINGS = ['missing_here', 'missing_there', 'different', 'without_id'] as const
export type OrderFinding = (typeof ORDER_FINDINGS)[number]

/** What one side says of an order. `fee` and `plan` are null where it says nothing of them. */
export type OrderSide = { usd: bigint; btc: bigint; fee: bigint | null; plan: string | null }

/** `line` is the first in the file, of `rows`; null for an order that is not in it. */
export type FoundOrder = {
  finding: OrderFinding
  order: string
  line: number | null
  rows: number
  ours: OrderSide | null
  theirs: OrderSide | null
  /** In which fields they differ. */
  fields: ('usd' | 'btc' | 'fee' | 'plan')[]
  /** It was corrected after the months that are compared; `ours` is what it comes to now. */
  isCorrectedSince: boolean
  /** It is on record here as a failure, and nothing was bought. */
  isFailure: boolean
}

export type OrderSums = { orders: number; usd: bigint; btc: bigint }

export type Comparison = {
  ours: OrderSums
  theirs: OrderSums
  /** Corrections, in these months, of orders that were recorded before them: they are billed, and not compared. */
  corrections: OrderSums
  /** How many of each finding, and what they come to on the side that has them; ours less theirs where both do. */
  found: Record<OrderFinding, OrderSums>
  /** Made one by one, in the order of the ledger and then in that of the file. */
  findings: () => Generator<FoundOrder>
}

/**
 * Compares the orders of a tenant that were recorded in the periods, which follow each other. An order of ours is
 * compared with all its corrections, whenever they were made.
 */
export async function compareOrders(
  store: AgainstStore,
  { tenant, periods }: { tenant: Tenant; periods: readonly FixedPeriod[] },
  rows: AsyncIterable<OrderRow[]>,
): Promise<Comparison> {
  const book = createBook()
  const corrections = none()
  for (const period of periods)
    for await (const lines of linesOf(store, tenant, period))
      for (const line of lines) enter(book, line, corrections)
  const last = periods.at(-1)
  if (last)
    for await (const lines of correctionsAfter(store, tenant, last))
      for (const line of lines) enterSince(book, line)
  for await (const batch of rows) for (const row of batch) enterTheirs(book, row)
  return { corrections, ...resultOf(book) }
}

const linesOf = (store: AgainstStore, tenant: Tenant, period: FixedPeriod): AsyncGenerator<TradeLine[]> =>
  pagesAfter(LINES_PER_READ, (page) => store.readTenantLines(tenant, period, page))

/** Corrections after a period. */
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

/** Enters a line of the ledger: a correction of an order that was recorded earlier only into `corrections`. */
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

/** What is known of an order. */
const OURS = 1
const FAILED = 2
const CORRECTED_SINCE = 4
const HAS_FEE = { our: 8, their: 16 }

const COLUMNS = ['theirUsd', 'theirBtc', 'theirFee', 'ourUsd', 'ourBtc', 'ourFee'] as const
type AmountColumn = (typeof COLUMNS)[number]

const FIRST_ROOM = 1_024

function createColumns() {
  let room = FIRST_ROOM
  const amounts = Object.fromEntries(COLUMNS.map((name) => [name, new BigInt64Array(room)])) as Record<
    AmountColumn,
    BigInt64Array
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
    /** Makes room for so many. */
    reach(count: number): void {
      if (count <= room) return
      room *= 2
      for (const name of COLUMNS) {
        const wider = new BigInt64Array(room)
        wider.set(amounts[name])
        amounts[name] = wider
      }
      for (const name of Object.keys(numbers) as (keyof typeof numbers)[]) {
        const wider = new Int32Array(room)
        wider.set(numbers[name])
        numbers[name] = wider
      }
    },
    add(name: AmountColumn, at: number, amount: bigint): void {
      const sum = (amounts[name][at] ?? 0n) + amount
      if (sum > LEDGER_MAX || -sum > LEDGER_MAX)
        throw new Problem('bad_file', 'The amounts of one order add up to more than any purchase.')
      amounts[name][at] = sum
    },
  }
}

type Book = {
  /** Where each order is in the columns. */
  places: Map<string, number>
  columns: ReturnType<typeof createColumns>
  plans: ReturnType<typeof createNames>
  withoutId: { line: number; usd: bigint; btc: bigint }[]
}

const createBook = (): Book => ({
  places: new Map(),
  columns: createColumns(),
  plans: createNames(),
  withoutId: [],
})

function placeOf({ places, columns }: Book, order: string): number {
  const known = places.get(order)
  if (known !== undefined) return known
  const place = places.size
  // A copy: a piece of a text keeps all of that text in memory.
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
  if (order === '') {
    if (amounts !== null && !isNothing(amounts)) book.withoutId.push({ line, ...amounts })
    return
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

function enterSide(book: Book, at: number, whose: 'our' | 'their', { usd, btc, fee, plan }: OrderSide): void {
  const { columns, plans } = book
  columns.add(`${whose}Usd`, at, usd)
  columns.add(`${whose}Btc`, at, btc)
  if (plan !== null) columns.numbers[`${whose}Plan`][at] = plans.numberOf(plan)
  if (fee === null) return
  flag(book, at, HAS_FEE[whose])
  columns.add(`${whose}Fee`, at, fee)
}

/** Whether the trade of an order is of the periods. */
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
  for (let at = 0; at < book.places.size; at++) {
    const { finding, ours, theirs } = sidesOf(book, at)
    if (ours) sum(sums.ours, ours)
    if (theirs) sum(sums.theirs, theirs)
    if (finding) sum(found[finding], difference(ours, theirs))
  }
  for (const row of book.withoutId) {
    sum(sums.theirs, row)
    sum(found.without_id, row)
  }
  return { ...sums, found, findings: () => findingsOf(book) }
}

function* findingsOf(book: Book): Generator<FoundOrder> {
  for (const { line, usd, btc } of book.withoutId)
    yield { ...NO_ID, line, theirs: { ...NO_ID.theirs, usd, btc } }
  const { numbers } = book.columns
  let at = 0
  for (const order of book.places.keys()) {
    const { finding, ours, theirs, fields } = sidesOf(book, at)
    const flags = flagsAt(book, at)
    const [line, rows] = [numbers.line[at] || null, numbers.rows[at] ?? 0]
    at += 1
    const isCorrectedSince = (flags & CORRECTED_SINCE) !== 0
    const isFailure = (flags & FAILED) !== 0 && ours === null
    if (finding) yield { finding, order, line, rows, ours, theirs, fields, isCorrectedSince, isFailure }
  }
}

/** What both sides come to, and what is found of it. */
function sidesOf(book: Book, at: number) {
  const [ours, theirs] = [sideOf(book, at, 'our'), sideOf(book, at, 'their')]
  const fields = ours && theirs ? FIELDS.filter((field) => differ(ours, theirs, field)) : []
  return { finding: findingOf(ours, theirs, fields), ours, theirs, fields }
}

/** An order that came to nothing is not a purchase. */
function sideOf(book: Book, at: number, whose: 'our' | 'their'): OrderSide | null {
  const { amounts, numbers } = book.columns
  const [usd, btc] = [amounts[`${whose}Usd`][at] ?? 0n, amounts[`${whose}Btc`][at] ?? 0n]
  if (isNothing({ usd, btc })) return null
  const fee = (flagsAt(book, at) & HAS_FEE[whose]) === 0 ? null : (amounts[`${whose}Fee`][at] ?? 0n)
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

/** The file need not say anything of a fee or a plan. A fee that nobody reported here is none. */
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
  isFailure: false,
} satisfies Partial<FoundOrder>

function sum(of: OrderSums, { usd, btc }: { usd: bigint; btc: bigint }): void {
  of.orders += 1
  of.usd += usd
  of.btc += btc
}

const difference = (ours: OrderSide | null, theirs: OrderSide | null) =>
  ours && theirs
    ? { usd: ours.usd - theirs.usd, btc: ours.btc - theirs.btc }
    : (ours ?? theirs ?? { usd: 0n, btc: 0n })

/** Names by numbers from 1 on: a partner has far fewer plans than orders. */
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
