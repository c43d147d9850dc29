// The audit log has every change of an operator: each command either adds a line to it, or is listed here because it
// changes no partner, key, tier, execution or plan.

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { everyCommand } from '../../src/cli/help.ts'
import { DAY_MS, formatInstant } from '../../src/core/time.ts'
import { commandTree, fill, openShell, PLAN, type Shell, succeed, USER } from '../support/service.ts'

type Scene = {
  shell: Shell
  keyId: string
  /** Executions by their outcome. */
  pending: string
  filled: string
  lateToAccept: string
  lateToDismiss: string
  priced: string
}
type Row = [command: string, argv: (scene: Scene) => string[] | Promise<string[]>]

/** Settings for invoices, in the month after the one that is to be billed. */
async function invoices(shell: Shell): Promise<string[]> {
  if (formatInstant(shell.machine.clock()).startsWith('2026-01')) {
    shell.advance(31 * DAY_MS)
    await succeed(shell, 'tick', '--price', '60000')
  }
  const file = join(shell.folder, 'billing.json')
  const issuer = { name: 'Us', address: ['Here'], country: 'US', due_days: 14, numbers: { prefix: 'A-' } }
  const beta = { name: 'Beta', address: ['There'], country: 'US', tax: { exempt: 'No tax.' } }
  writeFileSync(file, JSON.stringify({ issuer, partners: { beta } }))
  return ['--settings', file]
}

const BOUGHT = ['--usd', '9', '--btc', '0.00015', '--reason', 'x']
const CREDITED = ['--usd', '10.00', '--reason', 'x']

/** Each does its work once, in this order. */
const AUDITED: Row[] = [
  ['partner create', () => ['beta', '--name', 'Beta']],
  ['partner hold', () => ['beta']],
  ['partner release', () => ['beta']],
  ['partner disable', () => ['beta']],
  ['partner enable', () => ['beta']],
  ['partner set-min-tranche', () => ['beta', '20.00']],
  ['tier set', () => ['flat', '--rate-bps', '10', '--monthly-minimum-usd', '10.00']],
  ['partner set-tier', () => ['beta', 'flat']],
  ['key create', () => ['beta', '--env', 'test']],
  ['key rotate', ({ keyId }) => [keyId]],
  ['key revoke', ({ keyId }) => [keyId]],
  ['webhook resume', () => ['acme', '--env', 'test']],
  ['plan bring-back', () => ['--partner', 'acme']],
  ['execution cancel', ({ pending }) => [pending, '--reason', 'x']],
  ['execution accept-late', ({ lateToAccept }) => [lateToAccept, '--report', '1']],
  ['execution dismiss-late', ({ lateToDismiss }) => [lateToDismiss, '--reason', 'x']],
  ['price remove', ({ priced }) => ['--at', priced]],
  ['trade adjust', ({ filled }) => [filled, ...BOUGHT]],
  [
    'trade record',
    () => ['--partner', 'acme', '--env', 'test', '--plan', 'filled', '--order', 'lost', ...BOUGHT],
  ],
  ['sandbox advance', () => ['acme', '2d']],
  ['sandbox fire', () => ['acme', 'filled']],
  ['billing issue', async ({ shell }) => [...(await invoices(shell)), '--month', '2026-01']],
  ['billing credit', async ({ shell }) => ['A-0001', ...CREDITED, ...(await invoices(shell))]],
  ['user erase', () => ['acme', USER.partner_user_id, '--env', 'test', '--yes']],
  ['sandbox reset', () => ['acme', '--yes']],
  ['freeze', () => ['--reason', 'x']],
  ['resume', () => ['--yes']],
]
const ABOUT_ALL = ['freeze', 'resume']

/**
 * They show, check, copy, serve or buy; init runs commands that are audited themselves. Prices given on the command
 * line are in the price history, with their source.
 */
const OTHERS = `
  audit, backtest, backup, billing adjustments, billing export, billing invoice, billing issued,
  billing reconcile, billing show, check, completion, copy, demo, docs, execution late-fills,
  execution list, execution show, health, init, key list, migrate, openapi, partner list, partner show,
  plan list, plan show, price fetch, price import, price list, serve, status, tick, tier list, user list,
  user show, version, webhook listen, webhook show, webhook test, webhook verify`.split(',')

const actionsOf = async (shell: Shell): Promise<string[]> =>
  (JSON.parse(await succeed(shell, 'audit', '--json')) as { action: string }[]).map(({ action }) => action)

async function stage(shell: Shell): Promise<Scene> {
  await succeed(shell, 'partner', 'create', 'acme', '--name', 'Acme')
  const issue = async (env: string) =>
    JSON.parse(await succeed(shell, 'key', 'create', 'acme', '--env', env, '--json'))
  const [test, live] = [await issue('test'), await issue('live')]
  const call = (key: string, path: string, body?: object) => shell.ask(key, body ? 'POST' : 'GET', path, body)
  const webhook = { url: 'https://partner.example/hook' }
  assert.equal((await call(test.key, 'webhooks', webhook)).status, 200)
  for (const { key } of [test, live]) assert.equal((await call(key, 'users', USER)).status, 200)
  for (const partner_plan_id of ['pending', 'filled', 'accepted', 'dismissed'])
    assert.equal((await call(test.key, 'plans', { ...PLAN, partner_plan_id })).status, 200)
  await succeed(shell, 'tick', '--price', '60000')
  const due: { execution_id: string; partner_plan_id: string }[] = (await call(test.key, 'executions/due'))
    .body
  const idOf = (plan: string) => due.find((one) => one.partner_plan_id === plan)?.execution_id ?? ''
  for (const late of ['accepted', 'dismissed'])
    await succeed(shell, 'execution', 'cancel', idOf(late), '--reason', 'x')
  const confirmed = []
  for (const plan of ['filled', 'accepted', 'dismissed'])
    confirmed.push((await call(test.key, `executions/${idOf(plan)}/confirm`, fill(plan, '10.00'))).status)
  assert.deepEqual(confirmed, [200, 409, 409])
  // A clock that is ahead rolls a window into the future, and is set right.
  assert.equal((await call(live.key, 'plans', PLAN)).status, 200)
  await succeed(shell, 'tick', '--price', '60000')
  shell.advance(3 * DAY_MS)
  await succeed(shell, 'tick', '--price', '60000')
  shell.advance(-3 * DAY_MS)
  return {
    shell,
    keyId: test.key_id,
    pending: idOf('pending'),
    filled: idOf('filled'),
    lateToAccept: idOf('accepted'),
    lateToDismiss: idOf('dismissed'),
    priced: JSON.parse(await succeed(shell, 'price', 'list', '--json'))[0].at,
  }
}

test('each command that changes something adds a line to the audit log', async (t) => {
  const scene = await stage(openShell(t))
  const { shell } = scene
  for (const [command, argv] of AUDITED) {
    const before = await actionsOf(shell)
    await succeed(shell, ...command.split(' '), ...(await argv(scene)))
    const after = await actionsOf(shell)
    assert.deepEqual(after.slice(0, before.length), before, command)
    const added = new Set(after.slice(before.length))
    const action = ABOUT_ALL.includes(command) ? `database.${command}` : command.replace(' ', '.')
    assert.deepEqual([...added], [action], command)
  }
})

test('every command there is has been asked, or changes nothing that belongs there', () => {
  const leaves: string[] = []
  everyCommand(commandTree(), (command, path) => {
    if (path.length > 0 && command.commands.length === 0) leaves.push(path.join(' '))
  })
  const asked = [...AUDITED.map(([command]) => command), 'restore', ...OTHERS.map((words) => words.trim())]
  assert.deepEqual(leaves.sort(), asked.sort())
})
