// Rounds of kill -9: start a process, kill it at a random moment, and check that every answered write is stored.

import assert from 'node:assert/strict'
import { copyFileSync, existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { monthOf } from '../../../src/core/time.ts'
import { machine } from '../../../src/machine.ts'
import { pricesCsv } from '../../price/histories.ts'
import { count, partials, tamper } from '../../store/copies.ts'
import { FIRST, firstSchemaOf } from '../../store/first-schema.ts'
import type { Started } from '../../support/process.ts'
import { answersTo, type Partner, Unanswered } from '../partner.ts'
import { assertNothingLost, openScene, REMARKS, type Scene } from './scene.ts'

type Tally = {
  rounds: number
  killed: number
  /** The killed ones that left a non-empty log or a half-written file. */
  atWork: number
  /** The estimated time to its end: as measured, and longer for each run that was killed before its end. */
  wholeMs: number
}
type Killed = { tallies: Map<string, Tally>; answered: Record<string, number> }

export const sumOf = (tallies: Iterable<Tally>): Pick<Tally, 'rounds' | 'killed' | 'atWork'> =>
  [...tallies].reduce(
    (sum, { rounds, killed, atWork }) => ({
      rounds: sum.rounds + rounds,
      killed: sum.killed + killed,
      atWork: sum.atWork + atWork,
    }),
    { rounds: 0, killed: 0, atWork: 0 },
  )

/** serve is killed within this time; others within the time they take to their end. */
const ENDLESS_MS = 500
/** A first guess at a command's duration, and the latest moment of a kill after the first sign of a write. */
const FIRST_GUESS_MS = 120
const AT_WORK_MS = 20

type Options = {
  seed: number
  onRound?: (round: number) => void
  /** Whether to end before the next round. */
  isOver?: () => boolean
}

/** Runs rounds on one database, the victims in turn. Throws with the round that failed, whose folder then stays. */
export async function killRounds(
  rounds: number,
  { seed, onRound = () => {}, isOver = () => false }: Options,
): Promise<Killed> {
  const scene = await openScene(seed)
  const tallies = new Map<string, Tally>()
  let doing = 'at the start'
  try {
    for (let round = 1; round <= rounds && !isOver(); round++) {
      const victim = VICTIMS[(round - 1) % VICTIMS.length] as Victim
      const tally = tallies.get(victim.name) ?? { rounds: 0, killed: 0, atWork: 0, wholeMs: FIRST_GUESS_MS }
      tallies.set(victim.name, tally)
      doing = `round ${round} of seed ${seed} (${victim.name})`
      await killOnce(scene, victim, tally)
      await assertNothingLost(scene)
      onRound(round)
    }
    doing = 'at the end'
    for (const env of ['test', 'live'])
      await scene.run(['billing', 'reconcile', '--month', monthOf(machine.clock()), '--env', env])
  } catch (error) {
    await scene.end(true)
    throw new Error(`${doing}, in ${scene.folder}: ${(error as Error).stack}`, { cause: error })
  }
  await scene.end(false)
  return { tallies, answered: { ...answersTo(scene.partners), keys: scene.keys.size } }
}

async function killOnce(scene: Scene, victim: Victim, tally: Tally): Promise<void> {
  const { started, file, meanwhile, after } = await victim.begin(scene)
  const { child } = started
  const from = performance.now()
  const span = victim.endless ? ENDLESS_MS : tally.wholeMs
  const moment =
    victim.endless || scene.random() < 0.5
      ? wait(scene.random() * span)
      : atWork(scene, file).then(() => wait(scene.random() * scene.random() * AT_WORK_MS))
  await Promise.race([moment, started.ended])
  child.kill('SIGKILL')
  const code = await started.ended
  await meanwhile
  tally.rounds += 1
  if (code === 'SIGKILL') {
    tally.killed += 1
    tally.wholeMs *= 1.05
    if (leftSomething(scene, file)) tally.atWork += 1
  } else {
    assert.equal(code, 0, started.err())
    assert.match(started.err(), REMARKS)
    tally.wholeMs = performance.now() - from
  }
  await after?.(code)
}

/** Resolves when there are signs of a write, or the time for it is over. */
async function atWork(scene: Scene, file: string): Promise<void> {
  const until = performance.now() + ENDLESS_MS
  while (!leftSomething(scene, file) && performance.now() < until) await wait(1)
}

const leftSomething = ({ folder }: Scene, file: string): boolean =>
  readdirSync(folder).some((name) => name.includes('.partial-') || name === `${basename(file)}-journal`) ||
  (statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0

// The victims: each is started on the scene's database or on a copy, and has a check to run once it is dead.

type Attempt = {
  started: Started
  /** The database it works on. */
  file: string
  /** Work that runs while it lives, ended by its death. */
  meanwhile?: Promise<unknown>
  /** Checks the files it left; `code` is its exit code. */
  after?: (code: number | string) => Promise<void>
}

type Victim = {
  name: string
  /** Whether it runs until it is killed. */
  endless?: true
  /** Starts it, ready to be killed. */
  begin: (scene: Scene) => Promise<Attempt>
}

const PLANS_OF_A_TICK = 40
const SCHEDULED = ['--tick-every', '1s', '--price-feed', 'static:60000']

const serve: Victim = {
  name: 'serve',
  endless: true,
  async begin({ serve: startService, partners, live, file, served, service }) {
    // A first round has nothing to poll.
    if (live.plans.size === 0) await served(() => live.enrol(10))
    const started = await startService(...SCHEDULED)
    service.disturbedAt = Number.POSITIVE_INFINITY
    const meanwhile = Promise.all(partners.map((partner) => work(partner, service)))
    return { started, file, meanwhile }
  },
}

const WORKERS = 3

/** Works until the service is gone, after a repetition of every report that had no answer. */
async function work(partner: Partner, service: Scene['service']): Promise<void> {
  const steps = async (): Promise<void> => {
    while (!service.isGone) await partner.step()
  }
  const ends = await Promise.allSettled([partner.resend(), ...Array.from({ length: WORKERS }, steps)])
  for (const end of ends)
    if (end.status === 'rejected' && !(end.reason instanceof Unanswered)) throw end.reason
}

const serveStart: Victim = {
  name: 'serve, starting',
  endless: true,
  begin: async ({ start, file }) => ({ started: start(['serve', '--port', '0', ...SCHEDULED]), file }),
}

const tick: Victim = {
  name: 'tick',
  async begin({ start, served, live, file }) {
    await served(() => live.enrol(PLANS_OF_A_TICK))
    return { started: start(['tick', '--price', '60000']), file }
  },
}

const keyCreate: Victim = {
  name: 'key create',
  async begin({ start, keys, file }) {
    const started = start(['key', 'create', 'acme', '--env', 'test', '--json'])
    const noteKey = async () => {
      const [shown] = /sse_test_\w{46}(?=")/.exec(started.out()) ?? []
      if (shown !== undefined) keys.add(shown)
    }
    return { started, file, after: noteKey }
  },
}

const advance: Victim = {
  name: 'sandbox advance',
  async begin({ start, served, test, random, file }) {
    if (test.plans.size === 0) await served(() => test.enrol(10))
    const hours = 1 + Math.floor(random() * 36)
    return { started: start(['sandbox', 'advance', 'acme', `${hours}h`, '--price', '60000']), file }
  },
}

export const VICTIMS: readonly Victim[] = [
  serve,
  tick,
  advance,
  { name: 'billing export', begin: beginExport },
  { name: 'backup', begin: beginBackup },
  { name: 'restore', begin: beginRestore },
  { name: 'price import', begin: beginImport },
  { name: 'migrate', begin: beginMigration },
  keyCreate,
  serveStart,
]

// Kills of commands that write a file: under its name is the old file or the whole new one, never a part.

const bytesOf = (file: string): Buffer | null => (existsSync(file) ? readFileSync(file) : null)

async function beginExport({ start, run, random, folder, file }: Scene): Promise<Attempt> {
  const output = join(folder, 'export.csv')
  const report = random() < 0.7 ? 'trades' : 'users'
  const month = monthOf(machine.clock())
  const command = ['billing', 'export', '--month', month, '--env', 'test', '--report', report]
  const before = bytesOf(output)
  const started = start([...command, '--output', output, '--force', '--json'])
  return {
    started,
    file,
    async after(code) {
      // Nobody writes now, so another export gives equal bytes.
      const whole = Buffer.from(await run(command))
      const left = bytesOf(output)
      const isOld = before === null ? left === null : left?.equals(before)
      assert.ok(left?.equals(whole) || (isOld && code !== 0), 'the old export or the whole new one')
      await run([...command, '--output', output, '--force', '--json'])
      assert.deepEqual(bytesOf(output), whole)
      assert.deepEqual(partials(output), [], 'what was left aside is gone after the next export')
    },
  }
}

async function beginBackup({ start, run, folder, file }: Scene): Promise<Attempt> {
  const copy = join(folder, 'backup.db')
  const before = bytesOf(copy)
  const started = start(['backup', copy, '--force'])
  return {
    started,
    file,
    async after(code) {
      const left = bytesOf(copy)
      const isOld = before === null ? left === null : left?.equals(before)
      assert.ok(!isOld || code !== 0, 'a backup that exits 0 is there')
      if (left && !isOld) await assertCopy(run, copy, file)
      await run(['backup', copy, '--force'])
      assert.deepEqual(partials(copy), [], 'what was left aside is gone after the next backup')
    },
  }
}

/** Asserts that a copy is sound and has all rows of the database, which nobody writes to. */
async function assertCopy(run: Scene['run'], copy: string, file: string): Promise<void> {
  // Opening a database changes it: the copy itself is not opened.
  const opened = `${copy}.opened`
  copyFileSync(copy, opened)
  await run(['check'], opened)
  assert.deepEqual(rowsOf(opened), rowsOf(file))
  rmSync(opened)
}

const COUNTS = ['users', 'plans', 'windows', 'executions', 'trades', 'api_keys', 'audit']

const rowsOf = (file: string): unknown => COUNTS.map((table) => count(file, table))

/** The backup lacks a key that the present database has: the key tells the two apart. */
async function beginRestore({ start, run, keys, issueKey, folder, file }: Scene): Promise<Attempt> {
  const copy = join(folder, 'restore.db')
  await run(['backup', copy, '--force'])
  const key = await issueKey('test')
  const started = start(['restore', copy])
  return {
    started,
    file,
    async after(code) {
      assert.ok(existsSync(file), 'at no moment is there no database')
      const audit = JSON.parse(await run(['audit', '--json'])) as { action: string; subject: string }[]
      const isNew = audit.at(-1)?.action === 'database.restore'
      assert.ok(isNew || code !== 0, 'a restore that exits 0 has happened')
      if (!isNew) keys.add(key)
      await run(['restore', copy])
      await run(['resume', '--yes'])
      keys.delete(key)
      assert.deepEqual(partials(file), [], 'what was left aside is gone after the next restore')
      for (const name of readdirSync(folder)) if (name.includes('.replaced-')) rmSync(join(folder, name))
    },
  }
}

// Kills of commands that would make the scene's database ever larger or newer: each works on a database of its own.

const ROWS = 25_000

/** A fresh file under that name, without the files beside the previous one. */
function fresh(scene: Scene, name: string): string {
  for (const old of readdirSync(scene.folder))
    if (old.startsWith(`${name}.db`)) rmSync(join(scene.folder, old))
  return join(scene.folder, `${name}.db`)
}

async function beginImport(scene: Scene): Promise<Attempt> {
  const file = fresh(scene, 'import')
  const csv = join(scene.folder, 'prices.csv')
  if (!existsSync(csv)) writeFileSync(csv, pricesCsv(ROWS))
  await scene.run(['migrate'], file)
  return {
    started: scene.start(['price', 'import', csv], file),
    file,
    async after(code) {
      await scene.run(['check'], file)
      const added = count(file, 'prices')
      assert.ok(added === ROWS || (added === 0 && code !== 0), `all rows or none, not ${added}`)
      const again = JSON.parse(await scene.run(['price', 'import', csv, '--json'], file))
      assert.deepEqual([again.added, count(file, 'prices')], [ROWS - added, ROWS])
      assert.equal(count(file, 'price_imports'), 0)
    },
  }
}

/** Enough rows to make the copy and the migration slow. */
const FATTEN = `with recursive n(i) as (select 1 union all select i + 1 from n where i < 1500)
  insert or ignore into prices select i, 100000000, hex(randomblob(2500)) from n`

async function beginMigration(scene: Scene): Promise<Attempt> {
  const file = fresh(scene, 'old')
  const template = join(scene.folder, 'template.db')
  if (!existsSync(template)) {
    const present = join(scene.folder, 'present.db')
    await scene.run(['backup', present])
    firstSchemaOf(present, template)
    tamper(template, FATTEN)
  }
  copyFileSync(template, file)
  const executions = count(file, 'executions')
  return {
    started: scene.start(['migrate'], file),
    file,
    async after(code) {
      const states = JSON.parse(await scene.run(['migrate', '--status', '--json'], file)) as State[]
      const done = states.filter(({ applied_at }) => applied_at !== null).map(({ name }) => name)
      assert.ok(done.length === states.length || (done.join() === FIRST && code !== 0), done.join())
      const copy = `${file}.before-migration-after-${FIRST.replace('.sql', '')}`
      assert.ok(existsSync(copy) || done.length === 1, 'what was migrated was copied')
      // A copy that has its name is whole.
      if (existsSync(copy)) assert.equal(count(copy, 'executions'), executions)
      await scene.run(['check'], file)
      assert.equal(count(file, 'executions'), executions)
      assert.deepEqual(partials(file), [])
    },
  }
}

type State = { name: string; applied_at: string | null }
