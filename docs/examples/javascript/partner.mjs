// A partner of tranche: polls for instructions, buys each of them once, and confirms it until that is recorded.
//
// It may be killed at any moment and started again. Each step is in the journal, on disk, before the next is taken, and
// the venue knows every order by the key it was placed under. To go live, replace the paper venue with your own.
// It needs Node.js 18 or later, and nothing else. The types in the comments are for editors and for tsc --checkJs.

import { setTimeout as sleep } from 'node:timers/promises'
import { openJournal } from './journal.mjs'
import { openPaperVenue } from './paper-venue.mjs'
import { listenForWakeUps } from './wake-up.mjs'

/**
 * An order as the venue has it. Amounts are decimal strings, never numbers.
 * @typedef {{
 *   id: string,
 *   status: 'open' | 'filled' | 'partial' | 'failed',
 *   usd: string,
 *   btc: string,
 *   price: string,
 *   at: string,
 *   reason: string,
 * }} Order
 *
 * `find`: the order that was placed under this key, if there is one.
 * `place`: buys for at most this much; under a key it has seen before, the venue must buy nothing more. An order that
 * the venue refuses is `failed`. Throws when nobody knows whether the order arrived.
 * `cancel`: ends an order that is still open.
 * @typedef {{
 *   find: (key: string) => Promise<Order | undefined>,
 *   place: (key: string, usd: string) => Promise<Order>,
 *   cancel: (key: string) => Promise<void>,
 * }} Venue
 *
 * What the service hands out, as far as this program reads it.
 * @typedef {{ execution_id: string, idempotency_key: string, amount_usd: string }} Instruction
 *
 * @typedef {import('./journal.mjs').Purchase} Purchase
 */

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
/** Statuses that are about the report, whatever their code. */
const REFUSING = [409, 422]
/** How often the service is asked whether its wake-ups arrive. */
const WEBHOOK_CHECK_S = 3600

const ENVIRONMENT = KEY.startsWith('sse_live_') ? 'live' : 'test'
if (!globalThis.fetch) end(`This program needs Node.js 18 or later; this is ${process.version}.`)
if (!KEY.startsWith(`sse_${ENVIRONMENT}_`)) end('KEY has to be an API key, sse_test_... or sse_live_...')
/** Each environment has a journal of its own. */
const journal = open(JOURNAL ?? `journal-${ENVIRONMENT}`)
/** @type {Venue} */
const venue = openPaperVenue(ENVIRONMENT)

/** @param {string} folder */
function open(folder) {
  try {
    return openJournal(folder, ENVIRONMENT)
  } catch (error) {
    end(error instanceof Error ? error.message : String(error))
  }
}

/**
 * Ends the program with one line. What it has begun is in the journal.
 * @type {(why: string) => never}
 */
function end(why) {
  console.error(why)
  process.exit(1)
}

/**
 * Calls the service until it gives an answer that will not change by asking again: a success, or a refusal with a code.
 * @type {(method: string, path: string, body?: string) => Promise<Answer>}
 * @typedef {{ status: number, code: string | null, why: string, headers: Headers, json: any }} Answer
 */
async function call(method, path, body) {
  for (let attempt = 0; ; attempt++) {
    let why = ''
    let asked = 0
    try {
      const response = await fetch(`${TRANCHE_URL}/partner/v1${path}`, {
        method,
        headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
        body: body ?? null,
        redirect: 'manual',
        signal: AbortSignal.timeout(TIMEOUT_S * 1000),
      })
      const { ok, status, headers } = response
      const code = headers.get('x-error-code')
      asked = Number(headers.get('retry-after')) || 0
      const text = await response.text()
      why = `${code === null ? status : `${status} ${code}`} ${text}`.slice(0, 300)
      // A refusal without a code comes from something in between, and so does what is not JSON.
      const final = ok || (code !== null && status < 500 && status !== 408 && status !== 429)
      if (final) return { status, code, why, headers, json: JSON.parse(text) }
    } catch (error) {
      why += ` ${(error instanceof Error && error.cause) || error}`
    }
    const wait = WAITS_S[Math.min(attempt, WAITS_S.length - 1)] ?? 60
    const seconds = Math.max(wait * (0.5 + Math.random() / 2), Math.min(asked, 3600))
    console.error(`${method} ${path}: ${why.trim()}; again in ${seconds.toFixed(2)} s`)
    await sleep(seconds * 1000)
  }
}

/**
 * What was bought, and so what to confirm; undefined while there is no order, or no word of it.
 * @type {(purchase: Purchase, mayOrder: boolean) => Promise<string | undefined>}
 */
async function buy({ order_key: key, amount_usd: usd }, mayOrder) {
  let order = await venue.find(key)
  if (!order && mayOrder) order = await venue.place(key, usd)
  for (let open = 0; order?.status === 'open'; open += CHECK_S) {
    if (open >= OPEN_S) await venue.cancel(key)
    await sleep(CHECK_S * 1000)
    order = await venue.find(key)
  }
  if (!order) return undefined
  const { id, status, btc, price, at, reason } = order
  const fill = { usd_amount: order.usd, btc_amount: btc, execution_price: price, executed_at: at }
  const outcome = status === 'failed' ? { failure_reason: reason } : fill
  return JSON.stringify({ partner_order_id: id, status, ...outcome })
}

/** @type {(purchase: Purchase, report: string) => Promise<void>} */
async function confirm(purchase, report) {
  const { execution_id: id } = purchase
  const path = `/executions/${encodeURIComponent(id)}/confirm`
  const { status, code, why, json } = await call('POST', path, report)
  if (json.ok === true) {
    journal.setRecorded(purchase)
    console.log(`${id} recorded ${report}`)
  } else if (code === 'execution_pending') {
    // The service was restored from a backup: a poll will hand it out again, and then it is confirmed.
    console.error(`${id} waits for its next delivery: ${why}`)
  } else if (
    REFUSING.includes(status) ||
    code === 'amount_over_reservation' ||
    code === 'execution_not_found'
  ) {
    journal.setRefused(purchase, why)
    console.error(`${id} is refused, and a person has to decide: ${why}; sent was ${report}`)
  } else {
    // Anything else, such as a revoked key, would meet the next report too.
    end(`confirm ${id}: ${why}`)
  }
}

/**
 * Takes a purchase from wherever it is to its confirmation. Only what was just delivered may be ordered.
 * @type {(purchase: Purchase, mayOrder: boolean) => Promise<void>}
 */
async function finish(purchase, mayOrder) {
  let { report } = purchase
  if (report === undefined) {
    try {
      report = await buy(purchase, mayOrder)
    } catch (error) {
      console.error(`venue: ${error}`)
    }
    if (report === undefined) return
    journal.write({ ...purchase, report })
  }
  await confirm(purchase, report)
}

/** @param {Instruction} instruction */
async function take({ execution_id, idempotency_key, amount_usd }) {
  // The same plan id in test and live may have the same idempotency key, and a venue may have one book for both.
  const order_key = `${ENVIRONMENT}:${idempotency_key}`
  const known = journal.find(execution_id)
  // A person has to decide about it first.
  if (known?.state === 'refused') return
  // What was recorded is confirmed once more if it comes again: the service was restored from a backup.
  const purchase = known?.purchase ?? { execution_id, order_key, amount_usd }
  if (!known) journal.write(purchase)
  await finish(purchase, true)
}

async function round() {
  for (let remaining = 1; remaining > 0; ) {
    const orderUntil = performance.now() + ORDER_WITHIN_S * 1000
    const { status, why, headers, json } = await call('GET', '/executions/due')
    if (status !== 200) end(`poll: ${why}`)
    for (const instruction of json) {
      if (performance.now() > orderUntil) break
      await take(instruction)
    }
    remaining = Number(headers.get('x-due-remaining'))
  }
  for (const purchase of journal.open()) await finish(purchase, false)
}

/** Whether wake-ups arrive only the service knows: it stops after ten failures in a row. */
async function checkWebhook() {
  const { status, why, json } = await call('GET', '/webhooks')
  if (status !== 200) end(`webhook: ${why}`)
  if (json.status === 'active') return
  const what = json.url
    ? `${json.url} is paused; its last status was ${json.last_status_code}`
    : 'none is registered'
  console.error(`webhook: ${what}. Register it with POST /webhooks. Until then only polls find what is due.`)
}

let waiting = new AbortController()
let checkAt = WEBHOOK_SECRET ? 0 : Number.POSITIVE_INFINITY
if (WEBHOOK_SECRET)
  listenForWakeUps(Number(WEBHOOK_PORT), WEBHOOK_SECRET, () => waiting.abort()).on('error', (error) =>
    end(`webhook: ${error.message}`),
  )
for (;;) {
  waiting = new AbortController()
  await round()
  if (performance.now() >= checkAt) {
    checkAt = performance.now() + WEBHOOK_CHECK_S * 1000
    await checkWebhook()
  }
  await sleep(POLL_S * 1000, undefined, { signal: waiting.signal }).catch(() => {})
}
