// A partner that never gives up: it adds plans, polls, buys and confirms, at whichever address answers, and prints a
// line of JSON for everything that it was told has been recorded. The end of its input stops it, once all it bought is
// confirmed.
//
//   node partner.ts KEY CA ADDRESS...

import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { request } from 'node:https'

const [key = '', ca = '', ...addresses] = process.argv.slice(2)
const TIMEOUT_MS = 4_000
const PAUSE_MS = 100

const bought = new Map<string, string>()
let at = 0
let isOver = false
process.stdin.on('end', () => (isOver = true)).resume()

for (let n = 1; !isOver; n++) {
  const user = {
    partner_user_id: `u${n}`,
    consent_accepted: true,
    consent_version: 'v1',
    consent_timestamp: '2026-01-05T00:00:00Z',
  }
  await done('POST', '/users', user)
  await done('POST', '/plans', {
    partner_user_id: `u${n}`,
    partner_plan_id: `p${n}`,
    amount_usd: '60.00',
    frequency: 'daily',
  })
  say({ plan: `p${n}` })
  await pollAndConfirm()
}
while (await pollAndConfirm());
say({ over: true })

type Instruction = { execution_id: string; amount_usd: string }

async function pollAndConfirm(): Promise<boolean> {
  const due = (await done('GET', '/executions/due')) as Instruction[]
  for (const { execution_id, amount_usd } of due) {
    // A redelivered instruction was bought already.
    const order = bought.get(execution_id) ?? randomUUID()
    bought.set(execution_id, order)
    await done('POST', `/executions/${execution_id}/confirm`, {
      partner_order_id: order,
      status: 'filled',
      usd_amount: amount_usd,
      btc_amount: (Number(amount_usd) / 60_000).toFixed(8),
      execution_price: '60000.00',
    })
    say({ execution: execution_id, order })
  }
  return due.length > 0
}

/** Repeats a call until it is done. A refusal other than "come again" is a fault of the service. */
async function done(method: string, path: string, body?: object): Promise<unknown> {
  for (;;) {
    const { status, text } = await ask(method, path, body).catch((error) => ({
      status: 0,
      text: String(error),
    }))
    if (status === 200) return JSON.parse(text)
    if (status > 0 && status < 500 && status !== 429) throw new Error(`${method} ${path}: ${status} ${text}`)
    at++
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
  }
}

function ask(method: string, path: string, body?: object): Promise<{ status: number; text: string }> {
  const host = addresses[at % addresses.length]
  const headers = { authorization: `Bearer ${key}` }
  return new Promise((resolve, reject) => {
    const asked = request(
      {
        host,
        port: 443,
        path: `/partner/v1${path}`,
        method,
        headers,
        ca: readFileSync(ca),
        servername: 'tranche-db',
        timeout: TIMEOUT_MS,
      },
      (response) => {
        let text = ''
        response.setEncoding('utf8').on('data', (part) => (text += part))
        response.on('end', () => resolve({ status: response.statusCode ?? 0, text })).on('error', reject)
      },
    )
    asked.on('timeout', () => asked.destroy(new Error('no answer in time'))).on('error', reject)
    asked.end(body && JSON.stringify(body))
  })
}

function say(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`)
}
