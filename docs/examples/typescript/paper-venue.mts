// A venue on paper: fills orders out of nothing, at one price, and remembers them in a file as a venue would.

import { randomUUID } from 'node:crypto'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Order, Venue } from './integration.mts'

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

/** Of dollars with two decimals. */
const cents = (usd: string): bigint => BigInt(usd.replace('.', ''))
const decimal = (units: bigint, places: number): string =>
  String(units)
    .padStart(places + 1, '0')
    .replace(new RegExp(`(\\d{${places}})$`), '.$1')

export function openPaperVenue(environment: string): Venue {
  const book = new DatabaseSync(PAPER_FILE ?? `paper-venue-${environment}.db`)
  // `asked`: how often somebody tried to place an order under the key. Only the first buys.
  book.exec(`PRAGMA journal_mode = WAL;
    CREATE TABLE IF NOT EXISTS orders (key TEXT PRIMARY KEY, asked INTEGER NOT NULL DEFAULT 1,
      open_until INTEGER NOT NULL, id TEXT, status TEXT, usd TEXT, btc TEXT, price TEXT, at TEXT, reason TEXT)`)
  const delay = Number(PAPER_DELAY_MS)

  async function find(key: string): Promise<Order | undefined> {
    await sleep(delay)
    const order = book.prepare('SELECT * FROM orders WHERE key = ?').get(key) as
      | (Order & { open_until: number })
      | undefined
    return order && order.open_until > Date.now() ? { ...order, status: 'open' } : order
  }
  async function place(key: string, usd: string): Promise<Order> {
    await sleep(delay)
    const chance = Math.random()
    const failed = chance < Number(PAPER_FAIL)
    const part = !failed && chance < Number(PAPER_FAIL) + Number(PAPER_PART)
    const spent = failed ? 0n : part ? (cents(usd) + 1n) / 2n : cents(usd)
    const bought = (spent * 10n ** 8n) / cents(PAPER_PRICE)
    const status = failed ? 'failed' : part ? 'partial' : 'filled'
    book
      .prepare(`INSERT INTO orders (key, open_until, id, status, usd, btc, price, at, reason)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET asked = asked + 1`)
      .run(
        key,
        Date.now() + Number(PAPER_OPEN_MS),
        randomUUID(),
        status,
        decimal(spent, 2),
        decimal(bought, 8),
        PAPER_PRICE,
        new Date().toISOString(),
        failed ? 'the venue refused' : '',
      )
    return (await find(key)) as Order
  }
  async function cancel(key: string): Promise<void> {
    await sleep(delay)
    book
      .prepare(
        `UPDATE orders SET open_until = 0, status = 'failed', reason = 'cancelled' WHERE key = ? AND open_until > ?`,
      )
      .run(key, Date.now())
  }
  return { find, place, cancel }
}
