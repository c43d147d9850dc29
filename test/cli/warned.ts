// A shell in which check has warnings, and their text.

import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { price } from '../../src/core/money.ts'
import { runPass } from '../../src/engine/pass.ts'
import { openAgain } from '../support/database.ts'
import { openShell, PLAN, type Shell, USER } from '../support/service.ts'

export const MINUTE = 60_000

export type Finding = { level: string; kind: string; subject: string; message: string; mend: string }

/** The findings of check; each call also verifies that words, codes and --strict agree with them. */
export async function warningsOf(shell: Shell): Promise<Finding[]> {
  const [json, words, strict] = [
    await shell.tranche(['check', '--json']),
    await shell.tranche(['check']),
    await shell.tranche(['check', '--strict', '--json']),
  ]
  assert.deepEqual([json.code, json.err, words.code], [0, '', 0], json.out)
  const { ok, findings } = JSON.parse(json.out) as { ok: boolean; findings: Finding[] }
  assert.equal(ok, true)
  assert.equal(strict.code, findings.length === 0 ? 0 : 3)
  assert.deepEqual(JSON.parse(strict.out), { ok: findings.length === 0, findings })
  for (const { level, kind, subject, message, mend } of findings) {
    assert.equal(level, 'warning')
    for (const said of [kind, subject, message, mend]) assert.ok(words.out.includes(said), said)
  }
  return findings.map((finding) => ({ ...finding, mend: plain(shell, finding.mend) }))
}

/** The shell names its database on every command line, and so do the commands that check suggests. */
export function plain(shell: Shell, mend: string): string {
  if (!mend.startsWith('tranche ')) return mend
  const [named = '', db = ''] = /^tranche --db ('[^']*'|\S+) /.exec(mend) ?? []
  assert.equal(db.replaceAll("'", ''), shell.file, mend)
  return mend.replace(named, 'tranche ')
}

/** The only warning, as the three things a reader acts on. */
type Told = [kind: string, subject: string, mend: string]
export async function onlyWarning(shell: Shell, find = warningsOf): Promise<Told> {
  const [finding, ...more] = await find(shell)
  assert.ok(finding && more.length === 0, JSON.stringify([finding, ...more]))
  return [finding.kind, finding.subject, finding.mend]
}

export async function withPartner(t: TestContext): Promise<{ shell: Shell; key: string }> {
  const shell = openShell(t)
  await shell.tranche(['partner', 'create', 'acme', '--name', 'Acme'])
  const { out } = await shell.tranche(['key', 'create', 'acme', '--env', 'live'])
  return { shell, key: out.trim() }
}

/** With a plan, and a pass a minute for ten minutes. */
export async function withPlan(t: TestContext, plan = 'p1'): Promise<{ shell: Shell; key: string }> {
  const { shell, key } = await withPartner(t)
  await addPlan(shell, key, { partner_plan_id: plan })
  await ticks(shell, 10)
  return { shell, key }
}

export async function addPlan(shell: Shell, key: string, terms: object): Promise<void> {
  await shell.ask(key, 'POST', 'users', USER)
  assert.equal((await shell.ask(key, 'POST', 'plans', { ...PLAN, ...terms })).status, 200)
}

/** Wakes the scheduler so many times, over one opening of the database; with null, no feed gives a price. */
export async function ticks(
  { file, machine, advance }: Shell,
  count: number,
  seen: string | null = '60000',
): Promise<void> {
  const store = await openAgain(file, machine.clock)
  const observed = seen === null ? null : { price: price(seen), source: 'test' }
  const observe = async () => ({ price: observed, testimony: 'none' as const })
  for (let n = 0; n < count; n++) {
    advance(MINUTE)
    assert.ok(await runPass({ store, machine, observe }))
  }
  await store.close()
}

/** Confirms the first tranche of a plan as its partner reports it. */
export async function confirmFirst(shell: Shell, key: string, body: object): Promise<string> {
  const { body: due } = await shell.ask(key, 'GET', 'executions/due')
  const id = String(due[0].execution_id)
  const report = { partner_order_id: 'o1', status: 'filled', ...body }
  await shell.ask(key, 'POST', `executions/${id}/confirm`, report)
  return id
}
