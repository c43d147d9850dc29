// A partner of tranche: polls for instructions, buys each of them once, and confirms it until that is recorded.
//
// It may be killed at any moment and started again. Each step is in the journal, on disk, before the next is taken, and
// the venue knows every order by the key it was placed under. To go live, replace the paper venue with your own.

import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { openPaperVenue } from './paper-venue.mts'
import { listenForWakeUps } from './wake-up.mts'

/** An order as the venue has it. Amounts are decimal strings, never numbers. */
export type Order = {
  id: string
  status: 'open' | 'filled' | 'partial' | 'failed'
  usd: string
  btc: string
  price: string
  at: string
  reason: string
}
export interface Venue {
  /** The order that was placed under this key, if there is one. */
  find(key: string): Promise<Order | undefined>
  /**
   * Buys for at most this much; under a key it has seen before, the venue must buy nothing more. An order that the
   * venue refuses is `failed`. Throws when nobody knows whether the order arrived.
   */
  place(key: string, usd: string): Promise<Order>
  /** Ends an order that is still open. */
  cancel(key: string): Promise<void>
}
/** What the service hands out, as far as this program reads it. */
type Instruction = { execution_id: string; idempotency_key: string; amount_usd: string }
/**
 * A line of the journal. `order_key`: what its order is placed under. `report`: what to confirm, once that is known.
 * `answer`: "recorded", or the refusal.
 */
type Purchase = {
  execution_id: string
  order_key: string
  amount_usd: string
  report: string | null
  answer: string | null
}

const {
  TRANCHE_URL = 'http://127.0.0.1:8080',
  KEY = '',
  JOURNAL,
  WEBHOOK_SECRET,
  WEBHOOK_PORT = '9000',
} = process.env
/** A webhook only shortens this wait. */
const POLL_S = 60
const WAITS_S = [1, 2, 5, 10, 30, 60]
const TIMEOUT_S = 30
/** An instruction is leased for five minutes. What was not ordered in four is left for its next delivery. */
const ORDER_WITHIN_S = 240
/** How long an order may stay open, and how often the venue is asked about it. */
const OPEN_S = 60
const CHECK_S = 1

const ENVIRONMENT = KEY.startsWith('sse_live_') ? 'live' : 'test'
if (!KEY.startsWith(`sse_${ENVIRONMENT}_`)) end('KEY has to be an API key, sse_test_... or sse_live_...')
/** Each environment has a journal of its own. */
const journalFile = JOURNAL ?? `journal-${ENVIRONMENT}.db`

// One process works on a journal at a time. The lock ends with its process, however that ends.
const lock = new DatabaseSync(`${journalFile}.lock`)
try {
  lock.exec('BEGIN EXCLUSIVE')
} catch (error) {
  end(`${journalFile} is in use by another process, or cannot be locked: ${error}`)
}
process.on('exit', () => lock.close())

const journal = new DatabaseSync(journalFile, { timeout: 5000 })
journal.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
  CREATE TABLE IF NOT EXISTS purchases (execution_id TEXT PRIMARY KEY, order_key TEXT NOT NULL,
    amount_usd TEXT NOT NULL, report TEXT, answer TEXT)`)
if (journal.prepare('SELECT 1 FROM purchases WHERE order_key NOT GLOB ?').get(`${ENVIRONMENT}:*`))
  end(`${journalFile} has purchases of another environment than ${ENVIRONMENT}`)
const intend = journal.prepare(
  'INSERT INTO purchases (execution_id, order_key, amount_usd) VALUES (?, ?, ?) ON CONFLICT DO NOTHING',
)
const select = journal.prepare('SELECT * FROM purchases WHERE execution_id = ?')
const unanswered = journal.prepare('SELECT * FROM purchases WHERE answer IS NULL ORDER BY execution_id')
const setReport = journal.prepare('UPDATE purchases SET report = ? WHERE execution_id = ?')
const setAnswer = journal.prepare('UPDATE purchases SET answer = ? WHERE execution_id = ?')

const venue: Venue = openPaperVenue(ENVIRONMENT)

/** Ends the program with one line. What it has begun is in the journal. */
function end(why: string): never {
  console.error(why)
  process.exit(1)
}

/** Calls the service until it gives an answer that will not change by asking again. */
async function call(method: string, path: string, body?: string) {
  for (let attempt = 0; ; attempt++) {
    let why = ''
    let asked = 0
    try {
      const response = await fetch(`${TRANCHE_URL}/partner/v1${path}`, {
        method,
        headers: { authorization: `Bearer ${KEY}` },
        body: body ?? null,
        redirect: 'manual',
        signal: AbortSignal.timeout(TIMEOUT_S * 1000),
      })
      const { status, headers } = response
      asked = Number(headers.get('retry-after')) || 0
      const text = await response.text()
      why = `${status} ${text}`.slice(0, 300)
      // What is not JSON comes from something in between, and says nothing about the call.
      if (status < 500 && status !== 408 && status !== 429)
        return { status, why, headers, json: JSON.parse(text) }
    } catch (error) {
      why += ` ${(error as Error).cause ?? error}`
    }
    const wait = WAITS_S[Math.min(attempt, WAITS_S.length - 1)] ?? 60
    const seconds = Math.max(wait * (0.5 + Math.random() / 2), Math.min(asked, 3600))
    console.error(`${method} ${path}: ${why.trim()}; again in ${seconds.toFixed(2)} s`)
    await sleep(seconds * 1000)
  }
}

/** The same plan id in test and live may have the same idempotency key, and a venue may have one book for both. */
const orderKey = ({ idempotency_key: key }: Instruction) => `${ENVIRONMENT}:${key}`

/** What was bought, and so what to confirm; undefined while there is no order, or no word of it. */
async function buy(purchase: Purchase, mayOrder: boolean): Promise<string | undefined> {
  const { execution_id: id, order_key: key, amount_usd: usd } = purchase
  let order = await venue.find(key)
  if (!order && mayOrder) order = await venue.place(key, usd)
  for (let open = 0; order?.status === 'open'; open += CHECK_S) {
    if (open >= OPEN_S) await venue.cancel(key)
    await sleep(CHECK_S * 1000)
    order = await venue.find(key)
  }
  if (!order) return undefined
  const { status, btc, price, at, reason } = order
  const fill = { usd_amount: order.usd, btc_amount: btc, execution_price: price, executed_at: at }
  const outcome = status === 'failed' ? { failure_reason: reason } : fill
  const report = JSON.stringify({ partner_order_id: order.id, status, ...outcome })
  setReport.run(report, id)
  return report
}

async function confirm(id: string, report: string): Promise<void> {
  const { status, why, json } = await call('POST', `/executions/${encodeURIComponent(id)}/confirm`, report)
  const refused = [400, 404, 409, 422].includes(status)
  // Anything else, such as a revoked key, would meet the next report too.
  if (!refused && json.ok !== true) end(`confirm ${id}: ${why}`)
  setAnswer.run(refused ? why : 'recorded', id)
  if (refused) console.error(`${id} is refused, and a person has to decide: ${why}; sent was ${report}`)
  else console.log(`${id} recorded ${report}`)
}

/** Takes a purchase from wherever it is to its confirmation. Only what was just delivered may be ordered. */
async function finish(purchase: Purchase, mayOrder: boolean): Promise<void> {
  const report =
    purchase.report ?? (await buy(purchase, mayOrder).catch((error) => console.error(`venue: ${error}`)))
  if (report) await confirm(purchase.execution_id, report)
}

async function round(): Promise<void> {
  for (let remaining = 1; remaining > 0; ) {
    const orderUntil = performance.now() + ORDER_WITHIN_S * 1000
    const { status, why, headers, json } = await call('GET', '/executions/due')
    if (status !== 200) end(`poll: ${why}`)
    for (const instruction of json as Instruction[]) {
      if (performance.now() > orderUntil) break
      const { execution_id: id, amount_usd: usd } = instruction
      intend.run(id, orderKey(instruction), usd)
      const purchase = select.get(id) as Purchase
      // What was recorded is confirmed once more if it comes again: the service was restored from a backup.
      if (purchase.answer === null || purchase.answer === 'recorded') await finish(purchase, true)
    }
    remaining = Number(headers.get('x-due-remaining'))
  }
  for (const purchase of unanswered.all() as Purchase[]) await finish(purchase, false)
}

let waiting = new AbortController()
if (WEBHOOK_SECRET) listenForWakeUps(Number(WEBHOOK_PORT), WEBHOOK_SECRET, () => waiting.abort())
for (;;) {
  waiting = new AbortController()
  await round()
  await sleep(POLL_S * 1000, undefined, { signal: waiting.signal }).catch(() => {})
}
