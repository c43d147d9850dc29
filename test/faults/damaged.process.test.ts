// A log, or a page of the database, that is damaged: no command goes on as if what was answered had not been, and what
// is answered is what was stored. FAULTS_ALL=1 takes every frame and every page, else some.

import assert from 'node:assert/strict'
import { execSync } from 'node:child_process'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { after, suite, type TestContext, test } from 'node:test'
import { formatInstant } from '../../src/core/time.ts'
import { machineAt } from '../../src/machine.ts'
import { soundUsers, trancheHere } from '../store/copies.ts'
import { temporaryFolder } from '../support/database.ts'
import { finish, PROGRAM, startServe } from '../support/process.ts'
import { openShell, PLAN, runHere, type Shell, succeed, T0, USER, withKey } from '../support/service.ts'
import { ALL, chanceOf, MOUNTING, mayMount, random } from './failing.ts'

// A log that was damaged after a kill -9, which may have lost what was answered.

type Ending = Pick<TestContext, 'after'>

const PARTS = ['', '-wal', '-shm']
const FRAME_BYTES = 24 + 4096
const USERS = 6
const STRIDE = ALL ? 1 : 3
/** The checksum of a frame, its salt, and its page. */
const PLACES = [20, 8, 500]
const HEADER_BYTES = 32

/** A database as a kill leaves it: with users in its log, each a commit of its own that was answered. */
async function killed(t: Ending, users = USERS): Promise<string> {
  const { cwd, key } = await withKey(t)
  const { url, child, ended } = await startServe(t, [], { cwd })
  for (let n = 0; n < users; n++) {
    const headers = { authorization: `Bearer ${key}`, connection: 'close' }
    const body = JSON.stringify({ ...USER, partner_user_id: `a-${n}` })
    const answer = await fetch(`${url}/partner/v1/users`, { method: 'POST', headers, body })
    assert.equal(answer.status, 200)
  }
  child.kill('SIGKILL')
  await ended
  return join(cwd, 'tranche.db')
}

/** A copy of it, with its log and the index of that, or without. */
function copyOf(t: TestContext, file: string, parts: readonly string[] = PARTS): string {
  const copy = join(mkdtempSync(join(temporaryFolder(t), 'copy-')), 'tranche.db')
  for (const part of parts) copyFileSync(file + part, copy + part)
  return copy
}

function change(file: string, at: number): void {
  const bytes = readFileSync(file)
  bytes[at] = (bytes[at] ?? 0) ^ 1
  writeFileSync(file, bytes)
}

/** Where each commit of a log ends, in frames. */
function commitsOf(log: Buffer): number[] {
  const frames = Math.floor((log.length - 32) / FRAME_BYTES)
  return Array.from({ length: frames }, (_, n) => n + 1).filter(
    (n) => log.readUInt32BE(32 + (n - 1) * FRAME_BYTES + 4) !== 0,
  )
}

/** Holds that a command refuses the database, and that it leaves every byte as it was. */
async function assertRefused(file: string, why: RegExp, argv = ['check']): Promise<void> {
  const parts = () => PARTS.map((part) => (existsSync(file + part) ? readFileSync(file + part) : null))
  const before = parts()
  const { code, err } = await trancheHere(file, ...argv)
  assert.equal(code, 1, `${argv.join(' ')}: ${err}`)
  assert.match(err, why)
  assert.deepEqual(parts(), before, 'it stays as it was found')
}

suite('a damaged log', { concurrency: 2 }, () => {
  const ends: (() => unknown)[] = []
  after(async () => {
    for (const end of ends) await end()
  })
  let made: Promise<string> | undefined
  /** One for all tests, which damage copies of it. */
  const original = (): Promise<string> => {
    made ??= killed({ after: (end) => void ends.push(end as () => unknown) })
    return made
  }

  test('beside its index, any frame of it: every command says so, and none of them loses a commit', async (t) => {
    const file = await original()
    const log = readFileSync(`${file}-wal`)
    const commits = commitsOf(log)
    assert.ok(commits.length >= USERS)
    const last = commits.at(-1) ?? 0
    for (let frame = 1 + Math.floor(random() * STRIDE); frame <= last; frame += STRIDE) {
      const copy = copyOf(t, file)
      const place = PLACES[Math.floor(random() * PLACES.length)] ?? 0
      change(`${copy}-wal`, HEADER_BYTES + (frame - 1) * FRAME_BYTES + place)
      const before = readFileSync(`${copy}-wal`)
      const { code, err } = await trancheHere(copy, frame % 2 ? 'check' : 'status')
      assert.equal(code, 1, `frame ${frame}`)
      assert.match(
        err,
        /^error: \S+-wal is damaged after \d+ bytes, and commits that were answered come after .*\n$/,
      )
      assert.deepEqual(readFileSync(`${copy}-wal`), before, 'it stays as it was found')
    }
    const copy = copyOf(t, file)
    change(`${copy}-wal`, 100)
    const other = join(dirname(copy), 'other.db')
    await assertRefused(copy, /damaged after/, ['backup', other])
    const restored = await trancheHere(other, 'restore', copy)
    assert.deepEqual([restored.code, /damaged after/.test(restored.err)], [1, true], restored.err)
    assert.ok(!existsSync(other))
  })

  test('without its index, any frame before the last commit: the same', async (t) => {
    const file = await original()
    const commits = commitsOf(readFileSync(`${file}-wal`))
    const [last = 0, before = 0] = [commits.at(-1), commits.at(-2)]
    for (let frame = 1 + Math.floor(random() * STRIDE); frame <= last; frame += STRIDE) {
      const copy = copyOf(t, file, ['', '-wal'])
      change(`${copy}-wal`, 32 + (frame - 1) * FRAME_BYTES + 700)
      const { code, err } = await trancheHere(copy, 'check')
      // Nobody can tell the last commit from a write that was cut short.
      assert.equal(code, frame > before ? 0 : 1, `frame ${frame} of ${last}: ${err}`)
    }
  })

  test('any byte of its head: the same, with the index and without', async (t) => {
    const file = await original()
    const step = ALL ? 1 : 5
    for (const parts of [PARTS, ['', '-wal']]) {
      for (let at = Math.floor(random() * step); at < HEADER_BYTES; at += step) {
        const copy = copyOf(t, file, parts)
        change(`${copy}-wal`, at)
        await assertRefused(copy, /-wal is damaged after 0 bytes, and commits/)
      }
    }
    const copy = copyOf(t, file)
    const log = readFileSync(`${file}-wal`)
    writeFileSync(`${copy}-wal`, log.fill(0, 0, 4096))
    await assertRefused(copy, /-wal is damaged after 0 bytes, and commits/)
  })

  test('one that was emptied or removed after the kill: the same, as long as its index is there', async (t) => {
    const file = await original()
    const emptied = copyOf(t, file)
    writeFileSync(`${emptied}-wal`, '')
    const removed = copyOf(t, file, ['', '-shm'])
    for (const copy of [emptied, removed])
      await assertRefused(copy, /-wal is gone or empty, and commits that were answered were in it/)
    const { code, out } = await trancheHere(emptied, '--json', 'restore', copyOf(t, file))
    assert.equal(code, 0, out)
    assert.match(JSON.parse(out).replaced_log, /\.before-wal$/)
    assert.ok((await soundUsers(t, emptied)).includes(`a-${USERS - 1}`))
  })

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
    const commits = commitsOf(log)
    const whole = HEADER_BYTES + (commits.at(-1) ?? 0) * FRAME_BYTES
    // Two frames of a commit that was under way: the first of them ends none.
    const first = 1 + commits.findIndex((frame, n) => frame !== n + 1)
    const under = log.subarray(HEADER_BYTES + (first - 1) * FRAME_BYTES)
    for (const torn of [0, 1, 24, 2_000, FRAME_BYTES, 2 * FRAME_BYTES]) {
      const copy = copyOf(t, file)
      // Frames of the same log, of which the first has another content than its checksum says.
      writeFileSync(`${copy}-wal`, Buffer.concat([log.subarray(0, whole), under.subarray(0, torn)]))
      assert.equal((await trancheHere(copy, 'check')).code, 0, `${torn} bytes`)
      assert.ok((await soundUsers(t, copy)).includes(`a-${USERS - 1}`))
    }
  })

  test('nor is one whose first frame was half an older one, when its head lies in two blocks of the disk', async (t) => {
    const file = await killed(t, 3 * USERS)
    const log = readFileSync(`${file}-wal`)
    // With pages of 4096 bytes, the heads of frames 42, 63 and so on lie in two blocks. The salt of 42 is in the second
    // one, what says that it is a commit in the first; all of the head of 41 is in one.
    for (const [frame, code] of [
      [42, 0],
      [41, 1],
    ] as const) {
      const copy = copyOf(t, file, ['', '-wal'])
      const torn = Buffer.from(log.subarray(0, 32 + (frame + 1) * FRAME_BYTES))
      assert.equal(torn.length, 32 + (frame + 1) * FRAME_BYTES, 'the log is long enough')
      const commits = 32 + (frame - 1) * FRAME_BYTES + 4
      torn.writeUInt32BE(torn.readUInt32BE(commits) ^ 0x10_00, commits)
      writeFileSync(`${copy}-wal`, torn)
      const { code: ended, err } = await trancheHere(copy, 'check')
      assert.equal(ended, code, `frame ${frame}: ${err}`)
    }
  })

  test('a restore over it keeps it as it is, beside the database that it belongs to', async (t) => {
    const file = copyOf(t, await original())
    const sound = copyOf(t, file)
    const copy = join(dirname(sound), 'copy.db')
    assert.equal((await trancheHere(sound, 'backup', copy)).code, 0)
    change(`${file}-wal`, 32 + 700)
    const before = readFileSync(`${file}-wal`)
    const { code, out } = await trancheHere(file, '--json', 'restore', copy)
    assert.equal(code, 0)
    const { replaced, replaced_log: log } = JSON.parse(out)
    assert.ok(existsSync(replaced))
    assert.deepEqual(readFileSync(log), before)
    assert.equal((await trancheHere(replaced, 'check')).code, 0, 'without its log it can be looked at')
    assert.ok((await soundUsers(t, file)).includes(`a-${USERS - 1}`))
  })

  test('a restore that fails before the log is put aside leaves nobody to take it for the new file’s', async (t) => {
    const file = copyOf(t, await original())
    const good = copyOf(t, file)
    change(`${file}-wal`, HEADER_BYTES + 700)
    const before = readFileSync(`${file}-wal`)
    const { machine } = machineAt(T0)
    const restore = () => runHere(['--db', file, '--json', 'restore', good], { machine })
    // Where the log is to go there is a folder.
    const taken = `${file}.replaced-${formatInstant(T0).replaceAll(':', '-')}.before-wal`
    mkdirSync(join(taken, 'x'), { recursive: true })
    assert.equal((await restore()).code, 1)
    await assertRefused(file, /the log beside it .* belongs to the previous file/)
    rmSync(taken, { recursive: true })
    const { code, out } = await restore()
    assert.deepEqual([code, JSON.parse(out).replaced_log], [0, taken])
    assert.deepEqual(readFileSync(taken), before)
    assert.ok((await soundUsers(t, file)).includes(`a-${USERS - 1}`))
  })

  test('that of a database whose namesake on another disk is in use', async (t) => {
    if (!mayMount(t)) return
    const file = await original()
    // Two disks whose files have the same numbers, because each was filled in the same order.
    const script = `
      set -e
      from=$1; shift
      for disk in a b; do
        mkdir "$from.$disk"; mount -t tmpfs none "$from.$disk"
        for part in '' -wal -shm; do cp "$from$part" "$from.$disk/tranche.db$part"; done
      done
      [ "$(stat -c %i "$from.a/tranche.db-shm")" = "$(stat -c %i "$from.b/tranche.db-shm")" ]
      printf x | dd of="$from.b/tranche.db-wal" bs=1 seek=700 conv=notrunc status=none
      "$@" --db "$from.a/tranche.db" serve --port 0 2> "$from.log" &
      until grep -q listening "$from.log"; do sleep 0.1; done
      "$@" --db "$from.b/tranche.db" check || code=$?
      kill $!; wait $!
      exit "\${code:-0}"`
    const ended = await finish(t, [script, 'sh', file, ...PROGRAM], { cwd: dirname(file), program: MOUNTING })
    assert.deepEqual([ended.code, /damaged after/.test(ended.err)], [1, true], JSON.stringify(ended))
  })

  test('the way out that is shown leaves all that was answered before the damage', async (t) => {
    const file = copyOf(t, await original())
    const commits = commitsOf(readFileSync(`${file}-wal`))
    const damaged = commits.at(-3) ?? 0
    change(`${file}-wal`, 32 + (damaged - 1) * FRAME_BYTES + 700)
    const { err } = await trancheHere(file, 'check')
    const [, command = 'false'] = /`(truncate .*)`/.exec(err) ?? []
    execSync(command)
    assert.equal((await trancheHere(file, 'check')).code, 0)
    const users = await soundUsers(t, file)
    assert.ok(users.includes('a-0') && !users.includes(`a-${USERS - 1}`), users.join())
  })
})

// A page of the database that a disk gives back as zeros, or as noise: what is answered is what was stored, or is
// refused.

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
    for (const { execution_id, idempotency_key, amount_usd } of await call('GET', '/executions/due')) {
      const fill = { status: 'filled', usd_amount: amount_usd, btc_amount: '0.001', execution_price: '60000' }
      await call('POST', `/executions/${execution_id}/confirm`, {
        partner_order_id: idempotency_key,
        ...fill,
      })
    }
    shell.advance(6 * 3_600_000)
  }
  return key
}

const cleanUps = (): { after: (clean: () => unknown) => void; run: () => Promise<void> } => {
  const all: (() => unknown)[] = []
  return {
    after: (clean) => void all.push(clean),
    async run() {
      for (const clean of all.reverse()) await clean()
    },
  }
}

type Said = { name: string; isFine: boolean; text: string }

/** Everything the program says of these bytes. */
async function ask(bytes: Buffer, key: string, advanceMs: number): Promise<Said[]> {
  const ends = cleanUps()
  const shell = openShell(ends as never)
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
    await ends.run()
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
