// A venue on paper: fills orders out of nothing, at one price, and remembers them in a file as a venue would.

import { randomUUID } from 'node:crypto'
import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

const {
  PAPER_FILE,
  PAPER_PRICE = '64250.50',
  /** The shares of the orders that it fills in part, and that fail. */
  PAPER_PART = '0',
  PAPER_FAIL = '0',
  /** How long a call takes, and how long an order stays open. */
  PAPER_DELAY_MS = '0',
  PAPER_OPEN_MS = '0',
} = process.env

/** @type {(usd: string) => bigint} Dollars in cents; a fraction of a cent is cut off. */
const cents = (usd) => {
  const [dollars = '', part = ''] = usd.split('.')
  return BigInt(dollars + part.padEnd(2, '0').slice(0, 2))
}
/** @type {(units: bigint, places: number) => string} */
const decimal = (units, places) =>
  String(units)
    .padStart(places + 1, '0')
    .replace(new RegExp(`(\\d{${places}})$`), '.$1')

/**
 * `asked`: how often somebody tried to place an order under the key. Only the first buys.
 * @typedef {import('./partner.mjs').Order & { key: string, asked: number, open_until: number }} Placed
 */

/** @type {(environment: string) => import('./partner.mjs').Venue} */
export function openPaperVenue(environment) {
  const file = PAPER_FILE ?? `paper-venue-${environment}.jsonl`
  const delay = Number(PAPER_DELAY_MS)
  // A line has an order as it was then; the last one of a key holds.
  const lines = existsSync(file) ? readFileSync(file, 'utf8').trimEnd().split('\n') : []
  const book = new Map(lines.map((line) => /** @type {Placed} */ (JSON.parse(line))).map((o) => [o.key, o]))

  /** @type {(order: Placed) => void} */
  function write(order) {
    appendFileSync(file, `${JSON.stringify(order)}\n`)
    book.set(order.key, order)
  }
  /** @type {(usd: string) => import('./partner.mjs').Order} */
  function fill(usd) {
    const chance = Math.random()
    const failed = chance < Number(PAPER_FAIL)
    const part = !failed && chance < Number(PAPER_FAIL) + Number(PAPER_PART)
    const spent = failed ? 0n : part ? (cents(usd) + 1n) / 2n : cents(usd)
    return {
      id: randomUUID(),
      status: failed ? 'failed' : part ? 'partial' : 'filled',
      usd: decimal(spent, 2),
      btc: decimal((spent * 10n ** 8n) / cents(PAPER_PRICE), 8),
      price: PAPER_PRICE,
      at: new Date().toISOString(),
      reason: failed ? 'the venue refused' : '',
    }
  }
  return {
    async find(key) {
      await sleep(delay)
      const order = book.get(key)
      return order && order.open_until > Date.now() ? { ...order, status: 'open' } : order
    },
    async place(key, usd) {
      await sleep(delay)
      const known = book.get(key)
      write(
        known
          ? { ...known, asked: known.asked + 1 }
          : { key, asked: 1, open_until: Date.now() + Number(PAPER_OPEN_MS), ...fill(usd) },
      )
      return /** @type {Placed} */ (await this.find(key))
    },
    async cancel(key) {
      await sleep(delay)
      const known = book.get(key)
      if (known && known.open_until > Date.now())
        write({ ...known, open_until: 0, status: 'failed', reason: 'cancelled' })
    },
  }
}
