// The demonstration's partner, which uses the service over HTTP as a real one would: it polls, buys at the quoted
// price, and reports. It knows only the service's URL and its key. The synthetic prices are generated here too.

import {
  type Btc,
  CENT,
  floorToCents,
  formatBtc,
  formatPrice,
  formatUsd,
  type Price,
  UNITS,
  type Usd,
  usd,
  ZERO_USD,
} from '../../core/money.ts'
import { seededRandom } from '../../engine/backtest.ts'

type PartnerOptions = {
  url: string
  key: string
  /** The present price of one bitcoin at the partner's venue. */
  quote: () => Price
  chance: Chance
  /** How often each irregularity happens, as fractions of one; the rest is filled. */
  manners: { partial: number; failed: number; silent: number; answerLost: number }
}

/** An instruction from GET /executions/due, with the fields that this partner uses. */
type Instruction = {
  execution_id: string
  partner_plan_id: string
  amount_usd: string
  delivered_count: number
}

const emptyTally = () => ({
  polls: 0,
  /** Instructions delivered for the first time. */
  delivered: 0,
  redelivered: 0,
  /** Orders that bought all, some, or nothing. */
  filled: 0,
  partial: 0,
  failed: 0,
  /** Instructions not answered until they were delivered again. */
  silent: 0,
  /** Confirmations sent again, as if the answer had been lost, and answered as replays. */
  replayed: 0,
  /** Confirmations refused because the execution had been cancelled meanwhile. */
  refused_late: 0,
  /** The sum of the accepted reports: the partner's own book. */
  spent: ZERO_USD,
  bought: 0n as Btc,
})

export type Tally = ReturnType<typeof emptyTally>
export type Partner = ReturnType<typeof createPartner>

/** How the service distinguishes this conflict from the others, which would be the partner's mistakes. */
const CANCELLED_MEANWHILE = /was cancelled before it was confirmed/

type Desk = PartnerOptions & { tally: Tally }
type Answer = { status: number; body: unknown }
type Report = Record<string, string>
type Order = { instruction: Instruction; report: Report; spent: Usd; bought: Btc; answerLost: boolean }

export function createPartner(options: PartnerOptions) {
  const desk: Desk = { ...options, tally: emptyTally() }
  const { tally } = desk
  return {
    tally,
    /** One authenticated call; throws on any answer but 200. */
    call: (method: string, path: string, body?: unknown) => call(desk, method, path, body),

    /** Polls for due instructions. Unanswered ones come again only when their lease has expired. */
    async poll() {
      const due = (await call(desk, 'GET', '/executions/due')) as Instruction[]
      tally.polls += 1
      for (const { delivered_count } of due) tally[delivered_count === 1 ? 'delivered' : 'redelivered'] += 1
      return due
    },

    /** Buys and reports, all at once as a busy venue does. */
    async work(instructions: readonly Instruction[]) {
      // Random numbers are drawn in the order of the instructions, before anything runs in parallel.
      const orders = instructions.flatMap((instruction) => place(desk, instruction) ?? [])
      await Promise.all(orders.map((order) => confirm(desk, order)))
    },
  }
}

/** Decides the outcome of an instruction at the venue. Null when the partner stays silent for now. */
function place({ chance, manners, quote, tally }: Desk, instruction: Instruction): Order | null {
  const roll = chance()
  const answerLost = chance() < manners.answerLost
  const share = chance()
  const { failed, partial } = manners
  const silent = instruction.delivered_count === 1 ? manners.silent : 0
  if (roll < silent) {
    tally.silent += 1
    return null
  }
  // The execution id without its prefix is a valid order id, and the same one when the instruction comes again.
  const order = { partner_order_id: instruction.execution_id.slice('exec_'.length) }
  if (roll < silent + failed) {
    const report = { ...order, status: 'failed', failure_reason: 'the venue rejected the order' }
    return { instruction, report, spent: ZERO_USD, bought: 0n as Btc, answerLost }
  }
  const price = quote()
  const whole = usd(instruction.amount_usd)
  const some = roll < silent + failed + partial ? partOf(whole, share) : whole
  const bought = ((some * UNITS) / price) as Btc
  const report = {
    ...order,
    status: some < whole ? 'partial' : 'filled',
    usd_amount: formatUsd(some),
    btc_amount: formatBtc(bought),
    execution_price: formatPrice(price),
  }
  return { instruction, report, spent: some, bought, answerLost }
}

/** Between three and eight tenths, in whole cents; an amount too small to divide stays whole. */
function partOf(whole: Usd, share: number): Usd {
  const part = floorToCents(((whole * BigInt(Math.round(300 + share * 500))) / 1000n) as Usd)
  return part === ZERO_USD ? whole : part
}

/** Reports the outcome of an order; throws on any answer but that it is accepted, or was cancelled meanwhile. */
async function confirm(desk: Desk, { instruction, report, ...order }: Order): Promise<void> {
  const { tally } = desk
  const path = `/executions/${instruction.execution_id}/confirm`
  const answer = await send(desk, 'POST', path, report)
  if (answer.status === 409 && CANCELLED_MEANWHILE.test(JSON.stringify(answer.body))) {
    tally.refused_late += 1
    return
  }
  if (answer.status !== 200) throw unexpected('POST', path, answer)
  tally.spent = (tally.spent + order.spent) as Usd
  tally.bought = (tally.bought + order.bought) as Btc
  tally[report.status as 'filled' | 'partial' | 'failed'] += 1
  if (order.answerLost) await repeat(desk, path, report)
}

/** Repeats a confirmation whose answer was lost: the same confirmation, never a second order. */
async function repeat(desk: Desk, path: string, report: Report): Promise<void> {
  const answer = await call(desk, 'POST', path, report)
  if (!(answer as { replayed?: boolean }).replayed)
    throw new Error('a repeated confirmation was not a replay')
  desk.tally.replayed += 1
}

async function call(desk: Desk, method: string, path: string, body?: unknown): Promise<unknown> {
  const answer = await send(desk, method, path, body)
  if (answer.status !== 200) throw unexpected(method, path, answer)
  return answer.body
}

async function send({ url, key }: Desk, method: string, path: string, body?: unknown): Promise<Answer> {
  const response = await fetch(`${url}/partner/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  return { status: response.status, body: await response.json() }
}

const unexpected = (method: string, path: string, { status, body }: Answer): Error =>
  new Error(`${method} ${path} was answered ${status}: ${JSON.stringify(body)}`)

// A synthetic price path: made up, repeatable, and not a forecast.

/** Numbers in [0, 1), the same for the same seed and stream. Never for anything secret. */
type Chance = () => number

/** A generator of its own for each stream, so that drawing from one does not affect the others. */
export const createChance = (seed: number, stream: string): Chance =>
  seededRandom(
    [...stream].reduce((sum, letter) => Math.imul(sum ^ (letter.codePointAt(0) ?? 0), 0x01000193), seed),
  )

const FIRST_PRICE_USD = 64_000
const MINUTES_PER_YEAR = 365.25 * 24 * 60
/** A usual year of bitcoin; no drift, so that the path favours neither early nor late buying. */
const VOLATILITY_PER_YEAR = 0.5
/** How far volatility wanders (standard deviation of its logarithm) and how long it remembers. */
const WANDER = 0.4
const WANDER_HALF_LIFE_MINUTES = 36 * 60

/** A price a minute: a geometric random walk whose volatility wanders around a mean. Floats that end as cents. */
export function syntheticPath(seed: number, minutes: number): Price[] {
  const chance = createChance(seed, 'prices')
  const usual = VOLATILITY_PER_YEAR / Math.sqrt(MINUTES_PER_YEAR)
  const memory = 2 ** (-1 / WANDER_HALF_LIFE_MINUTES)
  const shock = WANDER * Math.sqrt(1 - memory ** 2)
  let wander = WANDER * normal(chance)
  let logPrice = Math.log(FIRST_PRICE_USD)
  return Array.from({ length: minutes }, () => {
    const price = BigInt(Math.max(1, Math.round(Math.exp(logPrice) * 100))) * CENT
    wander = memory * wander + shock * normal(chance)
    const deviation = usual * Math.exp(wander)
    logPrice += deviation * normal(chance) - deviation ** 2 / 2
    return price as Price
  })
}

/** A standard normal number (Box and Muller 1958). */
function normal(chance: Chance): number {
  return Math.sqrt(-2 * Math.log(1 - chance())) * Math.cos(2 * Math.PI * chance())
}
