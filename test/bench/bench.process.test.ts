// A small run of the bench: it measures the executable, and fails by its limits alone.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { type TestContext, test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import '../support/executable.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { readLimits } from './limits.ts'
import { readReport } from './report.ts'
import { hasFailed, type Result } from './row.ts'

const RUN = join(import.meta.dirname, 'run.ts')

async function bench(t: TestContext, ...argv: string[]) {
  const child = spawn(process.execPath, [RUN, ...argv], { stdio: ['ignore', 'pipe', 'pipe'] })
  t.after(() => child.kill('SIGKILL'))
  const ended = once(child, 'close')
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), ended])
  return { out, err, code }
}

test('a run measures a row, writes it down, and breaks a limit that no machine keeps', async (t) => {
  const folder = temporaryFolder(t)
  const [json, limits] = [join(folder, 'report.json'), join(folder, 'limits.json')]
  const argv = ['--quick', '--only', 'start-up', '--rounds', '1']
  const first = await bench(t, ...argv, '--json', json, '--record', limits)
  assert.equal(first.code, 0, first.err)
  assert.match(first.out, /the start of a process/)
  const { rows, machine, quick } = readReport(json)
  assert.equal(quick, true)
  assert.equal(machine.node, process.versions.node)
  assert.equal(rows.length, 1)
  const [row] = rows as [Result]
  assert.ok(!hasFailed(row), JSON.stringify(row))
  assert.deepEqual(
    row.contestants.map(({ name }) => name),
    ['ours', 'ours, idle tick', 'node -e 0'],
  )
  assert.ok((row.contestants[0]?.figures.ms?.median ?? 0) > 0)

  const before = readFileSync(limits, 'utf8')
  assert.deepEqual(Object.keys(readLimits(limits)), ['start-up'])
  writeFileSync(limits, before.replace(/"ratio": [\d.]+/, '"ratio": 0.001'))
  const second = await bench(t, ...argv, '--check', limits)
  assert.equal(second.code, 1)
  assert.match(second.err, /once more[\s\S]*times worse than the 0.001 on record/)
})

test('a row over HTTP is measured with a load, floors and the memory of serve', async (t) => {
  const json = join(temporaryFolder(t), 'report.json')
  const { code, err } = await bench(t, '--quick', '--only', 'me', '--rounds', '1', '--json', json)
  assert.equal(code, 0, err)
  const [row] = readReport(json).rows as [Result]
  for (const { name, figures } of row.contestants) {
    assert.equal(figures.errors?.median, 0, name)
    assert.ok((figures.p99_ms?.median ?? 0) > 0, name)
  }
})

test('a run that is broken off leaves no databases behind', async (t) => {
  const folder = temporaryFolder(t)
  const child = spawn(process.execPath, [RUN, '--quick', '--only', 'me'], {
    env: { ...process.env, TMPDIR: folder },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  t.after(() => child.kill('SIGKILL'))
  const ended = once(child, 'close')
  const made = (): string[] => readdirSync(folder).filter((name) => name.startsWith('tranche-bench-'))
  while (made().length === 0 && child.exitCode === null) await wait(10)
  child.kill('SIGTERM')
  const [code] = await ended
  assert.deepEqual({ code, made: made() }, { code: 130, made: [] })
})

test('the page about performance explains every row', async () => {
  const { ROWS } = await import('./rows.ts')
  const page = readFileSync(join(import.meta.dirname, '../../docs/performance.md'), 'utf8')
  const meanings = page.split('## What each row means')[1]?.split('\n## ')[0] ?? ''
  const explained = [...meanings.matchAll(/^\| `([a-z-]+)` \| /gm)].map(([, name]) => name)
  assert.deepEqual(
    explained,
    ROWS.map(({ name }) => name),
  )
  const { POSTGRES_ROWS } = await import('./postgres/rows.ts')
  const onServer = page.split('## On PostgreSQL')[1] ?? ''
  for (const { name } of POSTGRES_ROWS)
    if (!explained.includes(name)) assert.ok(onServer.includes(`| \`${name}\` |`), name)
})

test('a mistake on the command line is said before anything is measured', async (t) => {
  const { code, err, out } = await bench(t, '--only', 'nothing')
  assert.deepEqual({ code, out }, { code: 2, out: '' })
  assert.match(err, /'nothing' is invalid. Allowed choices are me, confirm,/)
})
