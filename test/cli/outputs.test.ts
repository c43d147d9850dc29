// Outputs of commands: a written file never replaces the ledger, and no message holds a secret.

import assert from 'node:assert/strict'
import { existsSync, linkSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { openShell, type Shell } from '../support/service.ts'

const CREATE = ['partner', 'create', 'acme', '--name', 'Acme']
const PRICES = join(import.meta.dirname, '../../fixtures/prices/synthetic-1h.csv')

/** Every name under which the database, its log or one of its locks can be reached. */
async function names(shell: Shell): Promise<string[]> {
  await shell.tranche(CREATE)
  const file = join(shell.folder, 'tranche.db')
  symlinkSync(file, join(shell.folder, 'link.db'))
  linkSync(file, join(shell.folder, 'second-name.db'))
  const beside = ['-wal', '-shm', '-tick'].map((suffix) => file + suffix)
  return [file, ...beside, ...['link.db', 'second-name.db'].map((name) => join(shell.folder, name))]
}

test('an export never replaces the database, forced or not', async (t) => {
  const shell = openShell(t)
  for (const name of await names(shell)) {
    const argv = ['billing', 'export', '--month', '2026-01', '--output', name]
    for (const force of [[], ['--force']]) {
      const { code, err } = await shell.tranche([...argv, ...force])
      assert.equal(code, 2, name)
      assert.match(err, /belongs to the database itself/)
    }
  }
  assert.equal((await shell.tranche(['check'])).code, 0)
})

test('an export answers with one JSON document under --json, and - is stdout', async (t) => {
  const shell = openShell(t)
  await shell.tranche(CREATE)
  const line = ['billing', 'export', '--month', '2026-01']
  const csv = await shell.tranche(line)
  assert.match(csv.out, /^partner_slug,/)
  assert.deepEqual(await shell.tranche([...line, '--output', '-']), csv)
  assert.equal(existsSync('-'), false)
  const json = await shell.tranche([...line, '--format', 'json'])
  for (const more of [[], ['--output', '-'], ['--format', 'json']])
    assert.deepEqual(await shell.tranche([...line, ...more, '--json']), { ...json, err: '' })
  const file = join(shell.folder, 'january.csv')
  const { code, out, err } = await shell.tranche([...line, '--output', file, '--json'])
  assert.deepEqual([code, JSON.parse(out), err], [0, { file, rows: 1 }, ''])
  assert.equal(readFileSync(file, 'utf8'), csv.out)
  for (const more of [['--format', 'csv'], ['--bom']])
    assert.equal((await shell.tranche([...line, ...more, '--json'])).code, 2, more.join(' '))
})

test('a chart replaces a chart and nothing else', async (t) => {
  const shell = openShell(t)
  const draw = (chart: string) =>
    shell.tranche(['backtest', PRICES, '--frequency', 'daily', '--chart', chart])
  for (const name of (await names(shell)).filter(existsSync)) assert.equal((await draw(name)).code, 1, name)
  assert.equal((await shell.tranche(['check'])).code, 0)
  const chart = join(shell.folder, 'chart.svg')
  for (let turn = 0; turn < 2; turn++) assert.equal((await draw(chart)).code, 0)
  writeFileSync(chart, 'a note')
  assert.equal((await draw(chart)).code, 1)
  assert.equal(readFileSync(chart, 'utf8'), 'a note')
})

test('of a feed that is an address only the host is shown', async (t) => {
  const shell = openShell(t)
  await shell.tranche(CREATE)
  const secret = 'https://user:hidden@127.0.0.1:9/x?apikey=hidden'
  for (const spec of [`${secret}#/p`, secret]) {
    for (const words of [['price', 'fetch'], ['tick']]) {
      const { out, err } = await shell.tranche([...words, '--price-feed', spec])
      assert.doesNotMatch(out + err, /hidden/, words.join(' '))
    }
  }
})
