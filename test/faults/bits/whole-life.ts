// A database with a row of every kind in it: the weeks of a service (test/releases/story.ts), and what those leave out.

import { HOUR_MS } from '../../../src/core/time.ts'
import { playSequel, playStory } from '../../releases/story.ts'
import { type Shell, succeed, USER } from '../../support/service.ts'

/** Plays it on the shell's database. Resolves with the key of the first partner's live environment. */
export async function wholeLife(shell: Shell, seed: number): Promise<string> {
  const { keys } = await playStory(shell, seed)
  await playSequel(shell, keys)
  const [live = '', test = '', other = ''] = keys
  const call = async (key: string, method: string, path: string, body?: object, expected = 200) => {
    const { status, text } = await shell.call(method, `/partner/v1${path}`, key, body && JSON.stringify(body))
    if (status !== expected) throw new Error(`${method} ${path}: ${status} ${text}`)
    return JSON.parse(text)
  }
  const plan = { partner_user_id: 'ana', amount_usd: '61.00', frequency: 'daily' }
  for (const key of [live, test]) await call(key, 'POST', '/webhooks', { url: 'https://127.0.0.1:9/hook' })
  await call(live, 'POST', '/plans', { ...plan, partner_plan_id: 'off', smart_timing_enabled: false })
  await call(live, 'POST', '/plans', { ...plan, partner_plan_id: 'paused', status: 'paused' })
  await call(live, 'POST', '/users', { ...USER, partner_user_id: 'dan' })
  await call(live, 'POST', '/plans', { ...plan, partner_user_id: 'dan', partner_plan_id: 'dan' })
  await call(live, 'PATCH', '/users/dan', { status: 'disabled' })
  const commands = [
    ['partner', 'create', 'closed', '--name', 'Closed'],
    ['partner', 'disable', 'closed'],
    ['partner', 'set-min-tranche', 'bolt', '5.00'],
    ['key', 'create', 'acme', '--env', 'live', '--label', 'for a month', '--expires-in', '30d'],
    ['billing', 'export', '--month', '2026-01'],
    ['billing', 'export', '--month', '2026-02'],
    ['sandbox', 'reset', 'bolt', '--yes'],
    ['sandbox', 'advance', 'acme', '1d', '--price', '60000'],
  ]
  for (const argv of commands) await succeed(shell, ...argv)
  await succeed(shell, 'partner', 'hold', 'bolt')
  // Something out with a partner, a fill nobody has decided on, and something that waits.
  const due = await call(live, 'GET', '/executions/due')
  await refuseFill(
    due[0] ?? (await nextDue(shell, () => call(live, 'GET', '/executions/due'))),
    (path, body) => call(live, 'POST', path, body, 400),
  )
  shell.advance(6 * HOUR_MS)
  await succeed(shell, 'tick', '--price', '58000')
  if (other === '') throw new Error('there is no second partner')
  return live
}

type Due = { execution_id: string; amount_usd: string }

async function nextDue(shell: Shell, poll: () => Promise<Due[]>): Promise<Due> {
  for (let tries = 0; tries < 8; tries++) {
    shell.advance(6 * HOUR_MS)
    await succeed(shell, 'tick', '--price', '55000')
    const [first] = await poll()
    if (first) return first
  }
  throw new Error('nothing fired in two days')
}

/** More than was reserved: refused, and kept. */
async function refuseFill(
  { execution_id, amount_usd }: Due,
  report: (path: string, body: object) => Promise<unknown>,
): Promise<void> {
  await report(`/executions/${execution_id}/confirm`, {
    partner_order_id: 'too much',
    status: 'filled',
    usd_amount: `${Number(amount_usd) + 1}`,
    btc_amount: '0.001',
    execution_price: '60000',
  })
}
