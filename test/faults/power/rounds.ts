// Power cuts: commands and a service are recorded at work, and the disk that a cut at any moment may leave is checked
// as the next start would find it.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import SQLite from 'better-sqlite3'
import { monthOf } from '../../../src/core/time.ts'
import { seededRandom } from '../../../src/engine/backtest.ts'
import { machine } from '../../../src/machine.ts'
import { count } from '../../store/copies.ts'
import { firstSchemaOf } from '../../store/first-schema.ts'
import { finish, type Program, startServe } from '../../support/process.ts'
import { callerOf, runHere } from '../../support/service.ts'
import { anyReport, anyTerms, CONSENT, type Due } from '../partner.ts'
import { assertComplete, createDisk, entriesOf, markOf, startOf } from './images.ts'

/** The answered work, as marks between the records of the disk. */
type Mark =
  | { did: 'user' | 'plan' | 'key' | 'erased'; id: string }
  | { did: 'lease'; id: string; count: number }
  | { did: 'report'; id: string; order: string }
  | { did: 'export'; name: string; sha256: string }
  | { did: 'backup' | 'damage' | 'restore' | 'migrate' | 'seal' }

type Stage = {
  folder: string
  random: () => number
  /** Runs a command in this process, before the recording or on an image. */
  here: (folder: string, ...argv: string[]) => Promise<string>
  /** Runs a recorded command to its end. */
  run: (...argv: string[]) => Promise<string>
  /** Runs a recorded Node script. */
  script: (text: string) => Promise<void>
  /** Records a service for as long as `work` takes; it is killed or stopped properly. */
  served: (work: (url: string) => Promise<void>) => Promise<void>
  mark: (mark: Mark) => void
}

type Image = { folder: string; file: string; marks: readonly Mark[]; here: Stage['here'] }

type Scene = {
  name: string
  /** Its share of the images. */
  share: number
  /** Prepares the folder; the returned value is passed to `work`. */
  lay: (stage: Stage) => Promise<string>
  work: (stage: Stage, laid: string) => Promise<void>
  /** Asserts the invariants of this scene, beside those of every image. */
  look: (image: Image) => Promise<void>
}

type Options = { seed: number; onImage?: () => void; isOver?: () => boolean }

type Cuts = { images: number; failures: string[] }

/** Checks so many images, shared among the scenes; answers how many of each, and the failures by image. */
export async function powerCuts(
  images: number,
  { seed, onImage = () => {}, isOver = () => false }: Options,
): Promise<{ counts: Map<string, number>; failures: string[] }> {
  const counts = new Map<string, number>()
  const failures: string[] = []
  const shares = SCENES.reduce((sum, { share }) => sum + share, 0)
  for (const [i, scene] of SCENES.entries()) {
    if (isOver()) break
    const share = Math.max(1, Math.round((images * scene.share) / shares))
    const cuts = await cutsOf(scene, share, { seed: seed + i, onImage, isOver })
    counts.set(scene.name, cuts.images)
    failures.push(...cuts.failures)
  }
  return { counts, failures }
}

/** A faulty image stays in its folder. */
async function cutsOf(
  scene: Scene,
  images: number,
  { seed, onImage, isOver }: Required<Options>,
): Promise<Cuts> {
  const place = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'tranche-power-'))
  const random = seededRandom(seed)
  const { start, entries, here, folder } = await record(scene, place, random)
  const scratch = join(place, 'whole')
  mkdirSync(scratch)
  assertComplete(start, entries, folder, scratch)
  rmSync(scratch, { recursive: true })
  // An image lies where the record was made: a sealed database knows the path of its copy.
  renameSync(folder, join(place, 'recorded'))
  const marks = entries.flatMap(({ kind, nr, data }) =>
    kind === 'm' ? [{ nr, mark: JSON.parse(data.toString()) as Mark }] : [],
  )
  const kinds = [...Map.groupBy(marks, ({ mark }) => mark.did).values()]
  const any = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] ?? assert.fail()
  // Half of the cuts come right after an answer, each kind as often as the others: no later operation can have brought
  // the write to disk.
  const cuts = Array.from({ length: images }, () =>
    random() < 0.5 ? any(any(kinds)).nr + 1 : any(entries).nr,
  ).sort((a, b) => a - b)
  const disk = createDisk(start, entries)
  const failures: string[] = []
  let done = 0
  for (const cut of cuts) {
    if (isOver()) break
    mkdirSync(folder)
    disk.goTo(cut)
    disk.cut(folder, random)
    const answered = marks.filter(({ nr }) => nr < cut).map(({ mark }) => mark)
    try {
      await scene.look({ folder, file: join(folder, 'tranche.db'), marks: answered, here })
      rmSync(folder, { recursive: true })
    } catch (error) {
      const { stack } = error as Error
      const image = join(place, `image-${done}`)
      renameSync(folder, image)
      failures.push(`${scene.name}, seed ${seed}, cut ${cut} of ${entries.length}, in ${image}: ${stack}`)
    }
    done += 1
    onImage()
  }
  if (failures.length === 0) rmSync(place, { recursive: true })
  return { images: done, failures }
}

const ROOT = join(import.meta.dirname, '../../..')

/** Does the work of a scene under the recorder. */
async function record(scene: Scene, place: string, random: () => number) {
  const [folder, log, library] = [join(place, 'db'), join(place, 'log'), join(place, 'record.so')]
  mkdirSync(folder)
  const source = join(import.meta.dirname, 'record.c')
  execFileSync('cc', ['-shared', '-fPIC', '-O1', '-Wall', '-Werror', '-o', library, source, '-ldl'])
  const file = join(folder, 'tranche.db')
  const env = { LD_PRELOAD: library, POWER_FOLDER: folder, POWER_LOG: log, UV_USE_IO_URING: '0' }
  const endings: (() => Promise<void>)[] = []
  const t = { after: (end: () => Promise<void>) => void endings.push(end) }
  async function recorded(argv: string[], cwd: string, program?: Program): Promise<string> {
    const { code, out, err } = await finish(t, argv, { cwd, env, ...(program && { program }) })
    assert.equal(code, 0, `${argv.join(' ')}: ${out}${err}`)
    return out
  }
  const stage: Stage = {
    folder,
    random,
    async here(at, ...argv) {
      const { code, out, err } = await runHere(['--db', join(at, 'tranche.db'), ...argv])
      assert.equal(code, 0, `${argv.join(' ')}: ${out}${err}`)
      return out
    },
    run: (...argv) => recorded(['--db', file, ...argv], folder),
    script: async (text) =>
      void (await recorded(['--input-type=module', '-e', text], ROOT, [process.execPath])),
    async served(work) {
      const service = await startServe(t, [], { cwd: folder, env })
      await work(service.url)
      service.child.kill(random() < 0.5 ? 'SIGKILL' : 'SIGTERM')
      await service.ended
    },
    mark: (mark) => appendFileSync(log, markOf(Buffer.from(JSON.stringify(mark)))),
  }
  try {
    const laid = await scene.lay(stage)
    writeFileSync(log, '')
    const start = startOf(folder)
    await scene.work(stage, laid)
    return { start, entries: entriesOf(readFileSync(log)), here: stage.here, folder }
  } finally {
    for (const end of endings) await end()
  }
}

// Invariants of every image: the next start finds nothing wrong, and every answered write is stored.

async function assertSound({ folder, file, marks, here }: Image): Promise<void> {
  assert.ok(existsSync(file), 'the database has its name')
  const bytes = [file, `${file}-wal`].filter((name) => existsSync(name)).map((name) => readFileSync(name))
  for (const mark of marks)
    if (mark.did === 'erased')
      assert.ok(!bytes.some((all) => all.includes(emailOf(mark.id))), `the e-mail of ${mark.id} is gone`)
    else if (mark.did === 'export') {
      const output = join(folder, mark.name)
      assert.ok(existsSync(output) && sha256(readFileSync(output)) === mark.sha256, `${mark.name} is there`)
    }
  await here(folder, 'check')
  if (marks.some(({ did }) => did === 'backup')) await assertCopy(folder, 'backup.db', here)
  const db = new SQLite(file, { readonly: true })
  try {
    for (const mark of marks) assertThere(db, mark)
  } finally {
    db.close()
  }
}

async function assertCopy(folder: string, name: string, here: Stage['here']): Promise<void> {
  assert.ok(existsSync(join(folder, name)), `${name} is there`)
  await here(folder, '--db', join(folder, name), 'check')
}

const sha256 = (bytes: Buffer | string): string => createHash('sha256').update(bytes).digest('hex')
/** None is a part of another. */
const emailOf = (user: string): string => `mail.${user}@erased.example`

const STORED: Partial<Record<Mark['did'], string>> = {
  user: 'select 1 from users where partner_user_id = ?',
  plan: 'select 1 from plans where partner_plan_id = ?',
  key: 'select 1 from api_keys where key_sha256 = ?',
  lease: 'select delivered_count from executions where execution_id = ?',
  report: 'select partner_order_id from trades where execution_id = ?',
  erased: 'select email from users where partner_user_id = ?',
}

function assertThere(db: SQLite.Database, mark: Mark): void {
  const sql = STORED[mark.did]
  if (!sql || !('id' in mark)) return
  const found = db.prepare<string[], number | string | null>(sql).pluck().get(mark.id)
  const what = `${mark.did} ${mark.id}`
  if (mark.did === 'report') assert.equal(found, mark.order, what)
  else if (mark.did === 'erased') assert.equal(found, null, what)
  else assert.ok(Number(found) >= (mark.did === 'lease' ? mark.count : 1), what)
}

// The scenes.

/** A database with partners, a key and users who can be erased; answers the key. */
async function layPartner({ folder, here }: Stage): Promise<string> {
  await here(folder, 'partner', 'create', 'acme', '--name', 'Acme')
  return JSON.parse(await here(folder, 'key', 'create', 'acme', '--env', 'test', '--json')).key
}

type Call = ReturnType<typeof callerOf>

async function enrol({ mark, random }: Stage, call: Call, user: string, plans: number): Promise<void> {
  await call('POST', '/users', { partner_user_id: user, email: emailOf(user), ...CONSENT })
  mark({ did: 'user', id: user })
  for (let n = 0; n < plans; n++) {
    const ids = { partner_user_id: user, partner_plan_id: `${user}-${n}` }
    await call('POST', '/plans', { ...ids, ...anyTerms(random) })
    mark({ did: 'plan', id: ids.partner_plan_id })
  }
}

async function buy({ mark, random }: Stage, call: Call): Promise<void> {
  for (const due of await call<Due[]>('GET', '/executions/due')) {
    mark({ did: 'lease', id: due.execution_id, count: due.delivered_count })
    const report = anyReport(random, `order ${due.idempotency_key}`, due.amount_usd)
    await call('POST', `/executions/${due.execution_id}/confirm`, report)
    mark({ did: 'report', id: due.execution_id, order: report.partner_order_id })
  }
}

async function erase({ run, mark }: Stage, user: string): Promise<void> {
  const out = await run('--json', 'user', 'erase', 'acme', user, '--env', 'test', '--yes')
  if (JSON.parse(out).gone_from_file) mark({ did: 'erased', id: user })
}

const serving: Scene = {
  name: 'serve, tick, export, backup',
  share: 6,
  lay: layPartner,
  async work(stage, key) {
    const { run, mark, served, folder } = stage
    for (const round of ['a', 'b']) {
      await served(async (url) => {
        const call = callerOf(url, key)
        for (const user of ['x', 'y']) await enrol(stage, call, `${round}-${user}`, 3)
        await run('tick', '--price', '60000')
        await buy(stage, call)
        const { key: shown } = JSON.parse(await run('key', 'create', 'acme', '--env', 'test', '--json'))
        mark({ did: 'key', id: sha256(shown) })
      })
      const output = join(folder, `${round}.csv`)
      const which = ['--month', monthOf(machine.clock()), '--env', 'test', '--report', 'trades']
      await run('billing', 'export', ...which, '--output', output)
      mark({ did: 'export', name: `${round}.csv`, sha256: sha256(readFileSync(output)) })
      await run('backup', join(folder, 'backup.db'), '--force')
      mark({ did: 'backup' })
    }
  },
  look: assertSound,
}

const erasing: Scene = {
  name: 'user erase',
  share: 4,
  lay: layPartner,
  async work(stage, key) {
    await stage.served(async (url) => {
      const call = callerOf(url, key)
      for (const user of ['a', 'b', 'c']) await enrol(stage, call, user, 1)
      for (const user of ['a', 'b']) {
        await erase(stage, user)
        await enrol(stage, call, `after-${user}`, 1)
      }
    })
    await erase(stage, 'c')
  },
  look: assertSound,
}

const FILLER_BYTES = 45 * 360_000

/** Adds pages to the log, as other commands do: the thread begins when it has 4,000. */
const LENGTHEN = (file: string): string => `
  import SQLite from 'better-sqlite3'
  const db = new SQLite(${JSON.stringify(file)})
  db.pragma('wal_autocheckpoint = 0')
  db.pragma('synchronous = full')
  db.exec(\`with recursive n(i) as (select 1 union all select i + 1 from n where i < 45)
    insert into prices select i, 100000000, hex(randomblob(180000)) from n\`)
  db.close()`

const checkpoint: Scene = {
  name: 'checkpoint of the thread',
  share: 2,
  lay: layPartner,
  work: (stage, key) =>
    stage.served(async (url) => {
      const call = callerOf(url, key)
      await enrol(stage, call, 'first', 1)
      await stage.script(LENGTHEN(join(stage.folder, 'tranche.db')))
      const from = performance.now()
      const isMoved = () => statSync(join(stage.folder, 'tranche.db')).size > FILLER_BYTES
      for (let n = 0; n < 8 || !isMoved(); n++) {
        assert.ok(performance.now() - from < 60_000, 'the thread moves the log')
        await enrol(stage, call, `user-${n}`, 3)
      }
    }),
  look: assertSound,
}

/** The copy lacks a key that the present database has: the key tells the two apart. */
async function layCopy(stage: Stage): Promise<string> {
  const key = await layPartner(stage)
  await stage.here(stage.folder, 'backup', join(stage.folder, 'copy.db'))
  await stage.here(stage.folder, 'key', 'create', 'acme', '--env', 'live')
  return key
}

const kept = (folder: string): string | undefined => globSync('tranche.db.replaced-*Z', { cwd: folder })[0]

const restoring: Scene = {
  name: 'restore',
  share: 3,
  lay: layCopy,
  async work(stage, key) {
    // A log that a kill leaves is checkpointed and not lost.
    await stage.served((url) => enrol(stage, callerOf(url, key), 'late', 1))
    await stage.run('restore', join(stage.folder, 'copy.db'))
    stage.mark({ did: 'restore' })
  },
  async look(image) {
    const { folder, file, marks, here } = image
    assert.ok(existsSync(file), 'the database has its name')
    await here(folder, 'check')
    const isOld = count(file, 'api_keys') === 2
    if (isOld) return assertSound({ ...image, marks: marks.filter(({ did }) => did !== 'restore') })
    const old = kept(folder) ?? assert.fail('what was replaced is kept')
    copyFileSync(join(folder, old), join(folder, 'old.db'))
    await assertSound({ ...image, file: join(folder, 'old.db') })
    assert.equal(count(join(folder, 'old.db'), 'api_keys'), 2)
  },
}

/** Over an unreadable database, whose log is put aside. */
const restoringUnread: Scene = {
  name: 'restore over a log that stays',
  share: 1,
  lay: layCopy,
  async work(stage, key) {
    await stage.served((url) => enrol(stage, callerOf(url, key), 'late', 1))
    const file = join(stage.folder, 'tranche.db')
    await stage.script(`
      import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs'
      const file = openSync(${JSON.stringify(file)}, 'r+')
      writeSync(file, 'damaged '.repeat(64), 0)
      fsyncSync(file)
      closeSync(file)`)
    stage.mark({ did: 'damage' })
    await stage.run('restore', join(stage.folder, 'copy.db'), '--force')
    stage.mark({ did: 'restore' })
  },
  async look({ folder, file, marks, here }) {
    if (!marks.some(({ did }) => did === 'damage')) return
    const { code, out, err } = await runHere(['--db', file, 'check'])
    if (code !== 0) {
      assert.match(out + err, /is not a database|is damaged|belongs to the previous file/)
      assert.ok(!marks.some(({ did }) => did === 'restore'), err)
      await here(folder, 'restore', join(folder, 'copy.db'), '--force')
      await here(folder, 'check')
    }
    assert.equal(count(file, 'api_keys'), 1, 'the log of the old one is not in the new one')
  },
}

const migrating: Scene = {
  name: 'migrate',
  share: 2,
  async lay(stage) {
    const key = await layPartner(stage)
    const [present, old] = [join(stage.folder, 'tranche.db'), join(stage.folder, 'old.db')]
    firstSchemaOf(present, old)
    for (const suffix of ['', '-wal', '-shm', '-owner']) rmSync(present + suffix, { force: true })
    copyFileSync(old, present)
    for (const name of globSync('{old.db*,*-wal,*-shm}', { cwd: stage.folder }))
      rmSync(join(stage.folder, name))
    return key
  },
  async work({ run, mark }) {
    await run('migrate')
    mark({ did: 'migrate' })
  },
  async look(image) {
    const { folder, file, marks, here } = image
    const states: { applied_at: unknown }[] = JSON.parse(await here(folder, 'migrate', '--status', '--json'))
    const done = states.filter(({ applied_at }) => applied_at !== null).length
    const isAnswered = marks.some(({ did }) => did === 'migrate')
    assert.ok(done === states.length || (done === 1 && !isAnswered), `${done}`)
    const copies = globSync('tranche.db.before-migration-*[a-z]', { cwd: folder })
    const copy = copies.find((name) => !/partial/.test(name))
    if (done > 1) assert.equal(count(join(folder, copy ?? assert.fail('no copy')), 'executions'), 0)
    await assertSound(image)
    assert.equal(count(file, 'api_keys'), 1)
  },
}

const MOVED = "frozen where kind = 'moved'"

const sealing: Scene = {
  name: 'copy --seal',
  share: 2,
  lay: layPartner,
  async work(stage, key) {
    const { folder, run, served, mark } = stage
    await served((url) => enrol(stage, callerOf(url, key), 'late', 2))
    await run('copy', '--from', join(folder, 'tranche.db'), '--to', join(folder, 'new.db'), '--seal')
    mark({ did: 'seal' })
  },
  async look(image) {
    const { folder, file, marks, here } = image
    await assertSound(image)
    const target = join(folder, 'new.db')
    const isDone = existsSync(target)
    assert.ok(isDone || !marks.some(({ did }) => did === 'seal'), 'the copy is there')
    const hasMoved = count(file, MOVED) > 0
    if (isDone) assert.ok(hasMoved, 'two databases take purchases')
    if (!isDone) await here(folder, 'copy', '--from', file, '--to', target, '--seal')
    await assertSound({ ...image, file: target, here: (at, ...argv) => here(at, '--db', target, ...argv) })
    assert.equal(count(target, MOVED), 0)
  },
}

export const SCENES: readonly Scene[] = [
  serving,
  erasing,
  checkpoint,
  restoring,
  restoringUnread,
  migrating,
  sealing,
]
