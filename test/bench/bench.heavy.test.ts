// A small run of the bench: it measures the executable, and fails by its limits alone.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { type TestContext, test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { temporaryFolder } from '../support/database.ts'
import { CACHE } from '../support/process.ts'
import { onFile } from './backend.ts'
import { bench, optionsOf, readLimits, writeLimits } from './bench.ts'
import { startBare, startLoad } from './helper.ts'
import { serve } from './program.ts'
import { readReport } from './report.ts'
import { type Figures, hasFailed, type Result, type Row } from './row.ts'
import { POSTGRES_ROWS, ROWS } from './run.ts'

const RUN = join(import.meta.dirname, 'run.ts')
/** What it loads is compiled once, and not in each of these runs. */
const env = { ...process.env, ...CACHE }

async function run(t: TestContext, ...argv: string[]) {
  const child = spawn(process.execPath, [RUN, ...argv], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  t.after(() => child.kill('SIGKILL'))
  const ended = once(child, 'close')
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), ended])
  return { out, err, code }
}

test('a run measures a row and writes it down', async (t) => {
  const folder = temporaryFolder(t)
  const [json, limits] = [join(folder, 'report.json'), join(folder, 'limits.json')]
  const argv = ['--quick', '--only', 'start-up', '--rounds', '1', '--json', json, '--record', limits]
  const { code, out, err } = await run(t, ...argv)
  assert.equal(code, 0, err)
  assert.match(out, /the start of a process/)
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
  assert.deepEqual(Object.keys(readLimits(limits)), ['start-up'])
})

/** A row whose ratio is what comes next of these, and says so on the way. */
const rowOf = (...ratios: number[]): Row => ({
  name: 'me',
  what: 'a row',
  main: 'ms',
  goals: [],
  ratios: [{ name: 'to one', better: 'less', isSteady: true, of: (seen) => seen('ours', 'ms') }],
  prepare: async () => ({
    on: 'nothing',
    contestants: [{ name: 'ours', role: 'ours', take: async () => ({ ms: ratios.shift() ?? Number.NaN }) }],
  }),
})

test('a row that is worse than on record is measured again, and fails the run when it stays so', async (t) => {
  const file = join(temporaryFolder(t), 'limits.json')
  writeLimits(file, { me: { 'to one': { better: 'less', ratio: 1 } } })
  const checked = async (row: Row, ...more: string[]) => {
    const said: string[] = []
    const options = optionsOf(['--rounds', '1', '--check', file, ...more], { file: ['me'], postgres: [] })
    const note = (text: string): void => void said.push(text)
    const code = await bench(options, { on: onFile, rows: [row], note, print: note })
    return { code, said: said.join('\n'), again: said.filter((text) => text.endsWith('once more')).length }
  }
  const steady = await checked(rowOf(1))
  assert.deepEqual([steady.code, steady.again], [0, 0])
  const once = await checked(rowOf(9, 1))
  assert.deepEqual([once.code, once.again], [0, 1])
  const record = `${file}.new`
  const always = await checked(rowOf(9, 8, 7), '--record', record)
  assert.deepEqual([always.code, always.again], [1, 2])
  assert.match(always.said, /7\.0 times worse than the 1 on record$/)
  assert.equal(readLimits(record).me?.['to one']?.ratio, 7)
  const prepare = async () => {
    throw new Error('no disk')
  }
  const failed = await checked({ ...rowOf(), prepare })
  assert.deepEqual([failed.code, failed.again], [1, 0])
  assert.match(failed.said, /me could not be measured: no disk$/)
  writeFileSync(file, '{"me": 1}')
  await assert.rejects(checked(rowOf(1)), 'a file that is not ours')
})

test('a load over HTTP measures serve and the floors, and counts what is refused', async (t) => {
  const stage = { folder: temporaryFolder(t), after: (end: () => unknown) => t.after(end) }
  const load = await startLoad(stage)
  const { database, key } = await onFile.empty(stage)
  const served = await serve(stage, database)
  const call = { connections: 4, method: 'GET' as const, path: '/partner/v1/me', calls: 100 }
  const authorised = { ...call, headers: { authorization: `Bearer ${key}` } }
  const isMeasured = ({ errors, p99_ms = 0, per_second = 0, resident_mib = 0 }: Figures) =>
    errors === 0 && p99_ms > 0 && per_second > 0 && resident_mib > 0
  const ours = await load(served, authorised)
  assert.ok(isMeasured(ours), JSON.stringify(ours))
  assert.equal((await load(served, call)).errors, 100, 'without a key')
  for (const floor of ['node:http', 'h3', 'h3 with duties'] as const) {
    const figures = await load(await startBare(stage, floor), authorised)
    assert.ok(isMeasured(figures), `${floor} ${JSON.stringify(figures)}`)
  }
})

test('a run that is broken off leaves no databases behind', async (t) => {
  const folder = temporaryFolder(t)
  const child = spawn(process.execPath, [RUN, '--quick', '--only', 'me'], {
    env: { ...env, TMPDIR: folder },
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
  const page = readFileSync(join(import.meta.dirname, '../../docs/performance.md'), 'utf8')
  const meanings = page.split('## What each row means')[1]?.split('\n## ')[0] ?? ''
  const explained = [...meanings.matchAll(/^\| `([a-z-]+)` \| /gm)].map(([, name]) => name)
  assert.deepEqual(
    explained,
    ROWS.map(({ name }) => name),
  )
  const onServer = page.split('## On PostgreSQL')[1] ?? ''
  for (const { name } of POSTGRES_ROWS)
    if (!explained.includes(name)) assert.ok(onServer.includes(`| \`${name}\` |`), name)
})

test('a mistake on the command line is said before anything is measured', async (t) => {
  const { code, err, out } = await run(t, '--only', 'nothing')
  assert.deepEqual({ code, out }, { code: 2, out: '' })
  assert.match(err, /'nothing' is invalid. Allowed choices are me, confirm,/)
})
