// A log that was cut short or has lost its database, and a damaged page of the database: every answer matches the
// stored data. FAULTS_ALL=1 takes every page, else some.

import assert from 'node:assert/strict'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { after, suite, type TestContext, test } from 'node:test'
import { formatInstant } from '../../src/core/time.ts'
import { machineAt } from '../../src/machine.ts'
import { soundUsers, trancheHere } from '../store/copies.ts'
import { temporaryFolder } from '../support/database.ts'
import { startServe } from '../support/process.ts'
import {
  callerOf,
  fill,
  openShell,
  PLAN,
  runHere,
  type Shell,
  succeed,
  T0,
  USER,
  withKey,
} from '../support/service.ts'
import { ALL, chanceOf } from './failing.ts'

// The log of a database that a kill -9 left.

type Ending = Pick<TestContext, 'after'>

const PARTS = ['', '-wal', '-shm']
const FRAME_BYTES = 24 + 4096
const USERS = 6
const HEADER_BYTES = 32

/** A database as a kill leaves it: its log has users, each in a commit of its own that was answered. */
async function killed(t: Ending): Promise<string> {
  const { cwd, key } = await withKey(t)
  const { url, child, ended } = await startServe(t, [], { cwd })
  const call = callerOf(url, key)
  for (let n = 0; n < USERS; n++) await call('POST', '/users', { ...USER, partner_user_id: `a-${n}` })
  child.kill('SIGKILL')
  await ended
  return join(cwd, 'tranche.db')
}

/** A copy of the database, with its log and the log's index. */
function copyOf(t: TestContext, file: string): string {
  const copy = join(mkdtempSync(join(temporaryFolder(t), 'copy-')), 'tranche.db')
  for (const part of PARTS) copyFileSync(file + part, copy + part)
  return copy
}

/** The end of a log's last commit, in bytes. */
function endOf(log: Buffer): number {
  const frames = Math.floor((log.length - HEADER_BYTES) / FRAME_BYTES)
  const starts = Array.from({ length: frames }, (_, n) => HEADER_BYTES + n * FRAME_BYTES)
  return FRAME_BYTES + (starts.findLast((at) => log.readUInt32BE(at + 4) !== 0) ?? assert.fail())
}

/** Asserts that a command refuses the database, and leaves every byte unchanged. */
async function assertRefused(file: string, why: RegExp, argv = ['check']): Promise<void> {
  const parts = () => PARTS.map((part) => (existsSync(file + part) ? readFileSync(file + part) : null))
  const before = parts()
  const { code, err } = await trancheHere(file, ...argv)
  assert.equal(code, 1, `${argv.join(' ')}: ${err}`)
  assert.match(err, why)
  assert.deepEqual(parts(), before, 'it stays as it was found')
}

suite('a log after a kill', { concurrency: 2 }, () => {
  const ends: (() => unknown)[] = []
  after(async () => {
    for (const end of ends) await end()
  })
  let made: Promise<string> | undefined
  /** A single original for all tests, which change copies of it. */
  const original = (): Promise<string> => {
    made ??= killed({ after: (end) => void ends.push(end as () => unknown) })
    return made
  }

  test('one whose database was emptied or removed is left alone, whatever would make a new one', async (t) => {
    const file = await original()
    for (const argv of [['partner', 'create', 'bolt', '--name', 'B'], ['migrate'], ['check']]) {
      const emptied = copyOf(t, file)
      writeFileSync(emptied, '')
      const removed = copyOf(t, file)
      rmSync(removed)
      for (const copy of [emptied, removed])
        await assertRefused(copy, /was replaced, emptied or removed, and the log beside it/, argv)
    }
    const emptied = copyOf(t, file)
    const before = readFileSync(`${emptied}-wal`)
    writeFileSync(emptied, '')
    const { code, out } = await trancheHere(emptied, '--json', 'restore', copyOf(t, file))
    assert.equal(code, 0, out)
    assert.deepEqual(readFileSync(JSON.parse(out).replaced_log), before)
  })

  test('a write that was cut short is not damage', async (t) => {
    const file = await original()
    const log = readFileSync(`${file}-wal`)
    const whole = endOf(log)
    const under = log.subarray(HEADER_BYTES)
    for (const torn of [0, 1, 24, 2_000, FRAME_BYTES, 2 * FRAME_BYTES]) {
      const copy = copyOf(t, file)
      // Frames of the same log, the first with a content that fails its checksum.
      writeFileSync(`${copy}-wal`, Buffer.concat([log.subarray(0, whole), under.subarray(0, torn)]))
      assert.equal((await trancheHere(copy, 'check')).code, 0, `${torn} bytes`)
      assert.ok((await soundUsers(t, copy)).includes(`a-${USERS - 1}`))
    }
  })

  test('a restore that fails before the log is put aside leaves nobody to take it for the new file’s', async (t) => {
    const file = copyOf(t, await original())
    const good = copyOf(t, file)
    writeFileSync(file, 'damaged '.repeat(64), { flag: 'r+' })
    const before = readFileSync(`${file}-wal`)
    const { machine } = machineAt(T0)
    const restore = () => runHere(['--db', file, '--json', 'restore', good, '--force'], { machine })
    // A folder stands where the log is to go.
    const kept = `${file}.replaced-${formatInstant(T0).replaceAll(':', '-')}`
    mkdirSync(join(`${kept}-wal`, 'x'), { recursive: true })
    const failed = await restore()
    assert.equal(failed.code, 1)
    assert.match(failed.err, /The restore failed/)
    await assertRefused(file, /the log beside it .* belongs to the previous file/)
    rmSync(`${kept}-wal`, { recursive: true })
    const { code, out } = await restore()
    assert.deepEqual([code, JSON.parse(out).replaced_log], [0, `${kept}.before-wal`])
    assert.deepEqual(readFileSync(`${kept}.before-wal`), before)
    assert.ok((await soundUsers(t, file)).includes(`a-${USERS - 1}`))
  })
})

// A page of the database that a disk returns as zeros or as noise: every answer matches the stored data, or is a
// refusal.

const PAGE_BYTES = 4096
const COMMANDS = [
  ['check'],
  ['plan', 'list', '--json'],
  ['execution', 'list', '--json'],
  ['user', 'list', 'acme', '--env', 'test', '--json'],
  ['billing', 'export', '--month', '2026-01', '--env', 'test', '--report', 'trades'],
]
const DAMAGED = /damaged|not a database|malformed|integrity/
const PATHS = ['/me', '/billing/monthly?month=2026-01', '/billing/monthly/users?month=2026-01']

/** A shell on a database with a key, a user, plans and trades. */
async function traded(shell: Shell): Promise<string> {
  await succeed(shell, 'partner', 'create', 'acme', '--name', 'Acme')
  const key = (await succeed(shell, 'key', 'create', 'acme', '--env', 'test')).trim()
  const call = async (method: string, path: string, body?: object) => {
    const { status, text } = await shell.call(method, `/partner/v1${path}`, key, body && JSON.stringify(body))
    assert.equal(status, 200, text)
    return JSON.parse(text)
  }
  await call('POST', '/users', USER)
  for (const partner_plan_id of ['p1', 'p2', 'p3']) await call('POST', '/plans', { ...PLAN, partner_plan_id })
  for (let pass = 0; pass < 3; pass++) {
    await succeed(shell, 'tick', '--price', '60000')
    for (const { execution_id, idempotency_key, amount_usd } of await call('GET', '/executions/due'))
      await call('POST', `/executions/${execution_id}/confirm`, fill(idempotency_key, amount_usd))
    shell.advance(6 * 3_600_000)
  }
  return key
}

type Said = { name: string; isFine: boolean; text: string }

/** Every answer of the program about these bytes. */
async function ask(bytes: Buffer, key: string, advanceMs: number): Promise<Said[]> {
  const ends: (() => unknown)[] = []
  const shell = openShell({ after: (end) => void ends.push(end as () => unknown) })
  shell.advance(advanceMs)
  try {
    writeFileSync(shell.file, bytes, { mode: 0o600 })
    const said: Said[] = []
    for (const argv of COMMANDS) {
      const { code, out, err } = await shell.tranche(argv)
      if (code !== 0) assert.match(out + err, DAMAGED, argv.join(' '))
      if (code !== 0) assert.doesNotMatch(err, /\n\s+at |SQLITE_/, argv.join(' '))
      // Without its first page it is not a database at all.
      if (argv[0] === 'check' && !/is not a database/.test(err)) assert.ok(code === 0 || code === 3, err)
      said.push({ name: argv.join(' '), isFine: code === 0, text: out })
    }
    const backup = await shell.tranche(['backup', `${shell.file}.copy`])
    if (backup.code !== 0) assert.match(backup.err, /^error: [^\n]*(damaged|not a database)[^\n]*\n$/)
    for (const path of PATHS) {
      const { status, text } = await shell
        .call('GET', `/partner/v1${path}`, key)
        .catch(({ message }: Error) => {
          assert.match(message, DAMAGED, path)
          return { status: 0, text: message }
        })
      if (status !== 0) assert.ok(status === 200 || status === 503, `${path}: ${status} ${text}`)
      said.push({ name: path, isFine: status === 200, text })
    }
    return said
  } finally {
    for (const end of ends.reverse()) await end()
  }
}

test('one page after the other: an answer is what was stored, or a refusal', async (t) => {
  const random = chanceOf(t)
  const shell = openShell(t)
  const key = await traded(shell)
  await succeed(shell, 'backup', `${shell.file}.copy`)
  const sound = readFileSync(`${shell.file}.copy`)
  const advanced = 18 * 3_600_000
  const truth = await ask(sound, key, advanced)
  assert.ok(truth.every(({ isFine }) => isFine))
  const pages = sound.length / PAGE_BYTES
  const stride = ALL ? 1 : 8
  let [looked, found] = [0, 0]
  for (let page = Math.floor(random() * stride); page < pages; page += stride) {
    looked += 1
    const bytes = Buffer.from(sound)
    const noise = Buffer.from(Array.from({ length: PAGE_BYTES }, () => Math.floor(random() * 256)))
    bytes.set(page % 2 === 0 ? noise : Buffer.alloc(PAGE_BYTES), page * PAGE_BYTES)
    const said = await ask(bytes, key, advanced)
    if (!said[0]?.isFine) found += 1
    for (const [i, { name, isFine, text }] of said.entries()) {
      if (isFine && i > 0) assert.equal(text, truth[i]?.text, `${name} with page ${page + 1} damaged`)
    }
  }
  assert.equal(found, looked, 'check finds every one')
})
