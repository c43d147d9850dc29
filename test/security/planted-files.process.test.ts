// Names that the program opens beside a database, or that a command line gives, with things that somebody else put
// there beforehand. None is followed, written through or waited for.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, lstatSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import SQLite from 'better-sqlite3'
import { temporaryFolder } from '../support/database.ts'
import { finish } from '../support/process.ts'
import { within } from '../support/within.ts'

const PRICES = join(import.meta.dirname, '../../fixtures/prices/synthetic-1h.csv')

type Plant = (name: string, folder: string, t: TestContext) => void | Promise<void>

/** Things that can lie under a name, and the word of the refusal for each. */
const STRANGE: Record<string, Plant> = {
  'a link': (name, folder) => symlinkSync(join(folder, 'target'), name),
  'a folder': (name) => mkdirSync(name),
  'a pipe': (name) => void execFileSync('mkfifo', [name]),
  'a socket': (name, _, t) => listenAt(name, t),
}

/** One function opens them all: every kind is tried with the first of several names, and a link with the others. */
const kindsFor = (n: number): [kind: string, plant: Plant][] =>
  Object.entries(STRANGE).slice(0, n === 0 ? 4 : 1)

async function listenAt(name: string, t: TestContext): Promise<void> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(name, resolve))
  t.after(() => server.close())
}

/** A write-ahead log with every page of a database. */
function logOf(database: string): Buffer {
  const db = new SQLite(database)
  try {
    db.pragma('journal_mode = wal')
    db.pragma('wal_autocheckpoint = 0')
    db.exec('vacuum')
    return readFileSync(`${database}-wal`)
  } finally {
    db.close()
  }
}

/** Runs a command that must end: one that waits for the other end of a pipe never does. */
const run = (t: TestContext, cwd: string, argv: readonly string[]) =>
  within(20_000, `the end of ${argv.join(' ')}`, finish(t, argv, { cwd }))

/** A folder with a database, `precious` beside it, and the prices of a few hours. */
async function withDatabase(t: TestContext): Promise<string> {
  const cwd = temporaryFolder(t)
  for (const argv of [['migrate'], ['partner', 'create', 'acme', '--name', 'Acme']])
    assert.equal((await run(t, cwd, argv)).code, 0, argv.join(' '))
  writeFileSync(join(cwd, 'precious'), 'precious')
  writeFileSync(join(cwd, 'prices.csv'), 'time,price\n2026-01-01T00:00:00Z,60000\n')
  rmSync(join(cwd, 'tranche.db-tick'), { force: true })
  return cwd
}

async function refuses(t: TestContext, cwd: string, argv: readonly string[], what: RegExp): Promise<void> {
  const { code, err } = await run(t, cwd, argv)
  assert.equal(code, 1, `${argv.join(' ')}: ${err}`)
  assert.match(err, what, argv.join(' '))
  assert.equal(existsSync(join(cwd, 'target')), false, `${argv.join(' ')} made the target of a link`)
}

const LOCKS: [suffix: string, argv: string[]][] = [
  ['-tick', ['tick', '--price', '60000']],
  ['-advance-1', ['sandbox', 'advance', 'acme', '1h', '--price', '60000']],
  ['-import', ['price', 'import', 'prices.csv']],
]

/** Each is read before the database is, by any command. */
const BESIDE = ['-wal', '-shm', '-journal']

const INPUTS: [name: string, argv: string[]][] = [
  ['planted.db', ['--db', 'planted.db', 'status']],
  ['planted.db', ['--db', 'planted.db', 'migrate']],
  ['planted.db', ['--db', 'planted.db', 'backup', 'copy.db']],
  ['planted.db', ['--db', 'planted.db', 'restore', 'tranche.db']],
  ['planted.db', ['restore', 'planted.db']],
  ['planted.db', ['copy', '--from', 'planted.db', '--to', 'new.db']],
  ['planted.csv', ['price', 'import', 'planted.csv']],
  ['planted.csv', ['backtest', 'planted.csv']],
  ['chart.svg', ['backtest', PRICES, '--frequency', 'daily', '--chart', 'chart.svg']],
]

suite('what somebody else put there', { concurrency: 2 }, () => {
  test('a lock is never taken on anything but a plain file', async (t) => {
    const cwd = await withDatabase(t)
    for (const [n, [suffix, argv]] of LOCKS.entries()) {
      const name = join(cwd, `tranche.db${suffix}`)
      for (const [kind, plant] of kindsFor(n)) {
        await plant(name, cwd, t)
        await refuses(t, cwd, argv, new RegExp(`${suffix} is ${kind}`))
        rmSync(name, { recursive: true })
      }
      writeFileSync(name, 'not a lock')
      await refuses(t, cwd, argv, /is not a database/)
      assert.equal(readFileSync(name, 'utf8'), 'not a lock')
      rmSync(name)
      assert.equal((await run(t, cwd, argv)).code, 0)
      assert.equal(lstatSync(name).mode & 0o777, 0o600)
    }
  })

  test('a log, an index or a journal that is no plain file is not read', async (t) => {
    const cwd = await withDatabase(t)
    writeFileSync(join(cwd, 'copy.db'), readFileSync(join(cwd, 'tranche.db')))
    for (const [n, suffix] of BESIDE.entries())
      for (const [kind, plant] of kindsFor(n))
        for (const [file, argv] of [
          ['tranche.db', ['status']],
          ['copy.db', ['restore', 'copy.db']],
        ] as const) {
          const name = join(cwd, file + suffix)
          await plant(name, cwd, t)
          await refuses(t, cwd, argv, new RegExp(`${suffix} is ${kind}`))
          rmSync(name, { recursive: true })
        }
    assert.equal((await run(t, cwd, ['check'])).code, 0)
  })

  test('what a restore or a copy reads from beside its source is named, of a restore in the audit log too', async (t) => {
    const cwd = await withDatabase(t)
    const source = join(await withDatabase(t), 'tranche.db')
    const layLog = () => {
      writeFileSync(`${source}-wal`, logOf(source), { mode: 0o600 })
      for (const suffix of ['-shm', '-owner']) rmSync(source + suffix, { force: true })
    }
    const succeeds = async (...argv: string[]): Promise<string> => {
      const { code, out, err } = await run(t, cwd, argv)
      assert.equal(code, 0, err)
      return out
    }
    const copy = ['copy', '--from', source, '--to']
    assert.deepEqual(JSON.parse(await succeeds(...copy, 'plain', '--json')).played_in, [])
    layLog()
    const words = await succeeds(...copy, 'words')
    assert.ok(words.includes(`, verified, with ${source}-wal merged; `), words)
    layLog()
    assert.deepEqual(JSON.parse(await succeeds(...copy, 'json', '--json')).played_in, [`${source}-wal`])
    layLog()
    assert.deepEqual(JSON.parse(await succeeds('restore', source, '--json')).played_in, [`${source}-wal`])
    const audit = await succeeds('audit', '--json')
    assert.ok(audit.includes(`"played_in":["${source}-wal"]`), audit)
  })

  test('a file that is named to be read is not waited for, and must be one', async (t) => {
    const cwd = await withDatabase(t)
    for (const [n, [file, argv]] of INPUTS.entries())
      for (const kind of n === 0 ? ['a pipe', 'a socket'] : ['a pipe']) {
        const name = join(cwd, file)
        await STRANGE[kind]?.(name, cwd, t)
        await refuses(t, cwd, argv, /is a (pipe|socket)|it is not a regular file|no such device/i)
        rmSync(name)
      }
    assert.equal((await run(t, cwd, ['check'])).code, 0)
  })

  test('what is written takes the place of a link, and never reaches its target', async (t) => {
    const cwd = await withDatabase(t)
    const outputs: [name: string, argv: string[]][] = [
      ['copy.db', ['backup', 'copy.db', '--force']],
      ['month.csv', ['billing', 'export', '--month', '2026-01', '--output', 'month.csv', '--force']],
      ['chart.svg', ['backtest', PRICES, '--frequency', 'daily', '--chart', 'chart.svg']],
    ]
    for (const [file, argv] of outputs)
      for (const target of ['precious', 'target']) {
        const name = join(cwd, file)
        symlinkSync(join(cwd, target), name)
        const { code, err } = await run(t, cwd, argv)
        assert.equal(lstatSync(name).isSymbolicLink(), code !== 0, `${argv.join(' ')}: ${err}`)
        assert.equal(readFileSync(join(cwd, 'precious'), 'utf8'), 'precious')
        assert.equal(existsSync(join(cwd, 'target')), false, argv.join(' '))
        rmSync(name)
      }
  })
})
