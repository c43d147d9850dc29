// The steps of init. Each knows whether it is done and how to do it; undo.ts takes back what they have done.

import { spawn, spawnSync } from 'node:child_process'
import {
  chmodSync,
  closeSync,
  constants,
  copyFileSync,
  existsSync,
  fchmodSync,
  fchownSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readSync,
  type Stats,
} from 'node:fs'
import { basename, dirname } from 'node:path'
import { text } from 'node:stream/consumers'
import { Problem } from '../../core/problem.ts'
import { quoted } from '../../core/text.ts'
import { isLinkRefused, openNamed, openUnlinked } from '../../plain-file.ts'
import { readDeployed } from '../../resources.ts'
import { isServer, shownAddress } from '../../store/address.ts'
import { giveName, nameAside, writeFileWhole } from '../../whole-file.ts'
import { EXIT } from '../exit-codes.ts'
import { serviceUrl, settingsIn, UNITS } from '../installed.ts'
import { type Place, type Scheduler, SYSTEM } from './places.ts'

/** All steps, in their order. When the jobs start there is a first partner, so serve has nothing to warn of. */
export const stepsFor = (
  place: Place,
  scheduler: Scheduler,
  { partner, ...settings }: Settings & { partner: FirstPartner | null },
): Step[] => [
  ...(place.user === null ? [] : [programStep(place), userStep(place.user)]),
  ...folderSteps(place),
  settingsStep(place, settings),
  databaseStep(place),
  ...(partner ? [partnerStep(place, partner)] : []),
  ...jobSteps(place, scheduler),
  ...(scheduler === 'none' ? [] : [firstRunStep(place)]),
]

function programStep({ program }: Place): Step {
  const self = process.execPath
  return {
    what: `${program}, the program`,
    isDone() {
      if (!existsSync(program)) return false
      if (haveSameContent(program, self)) return true
      const install = `install -m 0755 ${quoted(self)} ${program}`
      throw new Problem('file_exists', `${program} is another version: run \`${install}\`, then init again.`)
    },
    perform() {
      const aside = nameAside(program)
      copyFileSync(self, aside, constants.COPYFILE_EXCL)
      chmodSync(aside, 0o755)
      giveName(aside, program, { replace: true })
    },
  }
}

const userStep = (user: string): Step => ({
  what: `the system user ${user}, who cannot log in`,
  isDone: () => idsOf(SYSTEM) !== null,
  perform() {
    const home = ['--home-dir', SYSTEM.folder, '--no-create-home', '--shell', '/usr/sbin/nologin']
    run('useradd', ['--system', '--user-group', ...home, user])
  },
})

function folderSteps(place: Place): Step[] {
  if (place.user === null) return [ownFolderStep(place.folder), ownFolderStep(place.backups)]
  const own = { mode: 0o700, owner: () => idsOf(place) }
  return [
    folderStep(dirname(place.settings), { mode: 0o750, owner: () => readableBy(place) }),
    folderStep(place.folder, own),
    folderStep(place.backups, own),
    folderStep(place.cache, own),
  ]
}

// One step of init: its result, and how to do it.

export type Step = {
  /** What exists once it is done. */
  what: string
  /** Throws when something is in the way that only a person can decide about. */
  isDone: () => boolean
  perform: () => void | Promise<void>
}

/** What became of a step. */
export type Taken = { state: 'already' | 'done' | 'would'; what: string }

// The database of the jobs: made and migrated by the installed program, as their user.

function databaseStep(place: Place): Step {
  const { database, folder, user } = place
  return {
    what: `${shownAddress(database)}, the database`,
    isDone() {
      if (!isServer(database) && !existsSync(database)) return false
      const owner = isServer(database) ? null : lstatSync(database).uid
      // After --undo the database is there, and the program is not.
      if (owner === null || owner === idsOf(place)?.uid) return existsSync(place.program) && isMigrated(place)
      const mend =
        user === null ? 'run init as that user' : `run \`chown -R ${user}: ${folder}\`, then init again`
      throw new Problem('bad_file', `${database} belongs to another user (uid ${owner}): ${mend}.`)
    },
    async perform() {
      await runWriting(place, ['migrate'])
    },
  }
}

function isMigrated(place: Place): boolean {
  try {
    const states = runInstalled(place, ['migrate', '--status']) as { applied_at: string | null }[]
    return states.every((state) => state.applied_at !== null)
  } catch (error) {
    if ((error as { code?: string }).code === 'database_not_found') return false
    throw error
  }
}

// The jobs in a user's own crontab: their lines, between two marks, beside whatever else is in it.

const [BEGIN, END] = ['# tranche init: begin', '# tranche init: end']

/** The jobs as lines of a user's own crontab, which has no column for the user. */
export const crontabLines = (place: Place): string =>
  relocated(jobText('tranche.cron', place), place)
    .split('\n')
    .filter((line) => /^[\d*]/.test(line))
    .map((line) => line.replace(` ${SYSTEM.user} {`, ' {'))
    .join('\n')

function crontabStep(place: Place): Step {
  const block = `${BEGIN}\n${crontabLines(place)}\n${END}\n`
  return {
    what: 'the jobs in your crontab',
    isDone: () => currentCrontab().includes(block),
    perform() {
      run('crontab', ['-'], withoutJobs(currentCrontab()) + block)
    },
  }
}

/** A crontab without the lines between the marks. */
export function withoutJobs(crontab: string): string {
  const left = crontab.replace(new RegExp(`${BEGIN}\n[\\s\\S]*?${END}\n`), '')
  return left === '' || left.endsWith('\n') ? left : `${left}\n`
}

export function currentCrontab(): string {
  try {
    return run('crontab', ['-l'])
  } catch (error) {
    // No other failure may count as an empty crontab, which the new one would replace.
    if (/\bno crontab for\b/.test((error as Error).message)) return ''
    throw error
  }
}

// Steps that make the machine run the jobs: systemd units, a file of cron, or a user's own crontab.

export const CRON_TABLE = '/etc/cron.d/tranche'
/** Where the units say that their guide is. */
export const UNIT_GUIDE = '/usr/local/share/tranche'
const TIMED = ['tranche-tick', 'tranche-check', 'tranche-backup']
export const STARTED = ['tranche.service', ...TIMED.map((name) => `${name}.timer`)]
export const UNIT_NAMES = [...STARTED, ...TIMED.map((name) => `${name}.service`)]

/** A file that is kept gets a name that neither systemd nor cron reads. */
function jobSteps(place: Place, scheduler: Scheduler): Step[] {
  if (scheduler === 'none') return []
  if (scheduler === 'cron' && place.user === null) return [crontabStep(place)]
  const root = { mode: 0o644, owner: () => ({ uid: 0, gid: 0 }) }
  if (scheduler === 'cron') return [fileStep(CRON_TABLE, jobText('tranche.cron', place), root)]
  return [
    folderStep(UNIT_GUIDE, { ...root, mode: 0o755 }),
    fileStep(`${UNIT_GUIDE}/README.md`, readDeployed('README.md'), root),
    ...UNIT_NAMES.map((name) => fileStep(`${UNITS}/${name}`, jobText(name, place), root)),
    startStep(),
  ]
}

/**
 * What keeps a nightly job from running shows now. From its first result on another one is due, so one that is never
 * started is found like one that has stopped.
 */
function firstRunStep(place: Place): Step {
  const jobs = [['check', '--daily'] as const, ['backup', place.backups, '--keep', '14'] as const]
  const due = () => {
    const { jobs: ran, findings } = runInstalled(place, ['status']) as Status
    // One that has moved takes no result.
    if (findings.some(({ kind }) => kind === 'database_sealed')) return []
    return jobs.filter(([name]) => ran.every(({ job }) => job !== name))
  }
  return {
    what: 'the first check and the first backup, before those of every night',
    isDone: () => existsSync(place.program) && isMigrated(place) && due().length === 0,
    async perform() {
      // What a check has found is in status.
      for (const argv of due()) await runWriting(place, argv, [EXIT.done, EXIT.found])
    },
  }
}

function startStep(): Step {
  return {
    what: `${STARTED.join(', ')}, started now and at each boot`,
    isDone: () => false,
    perform() {
      run('systemctl', ['daemon-reload'])
      run('systemctl', ['enable', '--now', ...STARTED])
    },
  }
}

// Steps that create a folder or a file with its owner and mode, and know what was there before.

/** `owner` may not exist yet: an earlier step creates the user. */
type Access = { mode: number; owner: () => Ids | null }

function folderStep(folder: string, access: Access): Step {
  const seen = statOf(folder)
  return {
    what: `${folder}/, mode ${octal(access.mode)}`,
    isDone() {
      if (seen && !seen.isDirectory())
        throw new Problem('bad_file', `${folder} is a link or a file: move it away, then run init again.`)
      return seen !== undefined && hasAccess(seen, access)
    },
    perform() {
      mkdirSync(folder, { recursive: true, mode: access.mode })
      giveAccess(folder, access)
    },
  }
}

/** A folder of the user's own stays as it is when it exists: it may hold anything. */
function ownFolderStep(folder: string): Step {
  const step = folderStep(folder, { mode: 0o700, owner: () => null })
  return { ...step, isDone: () => existsSync(folder) }
}

/**
 * A file with this text; another one of that name is kept beside it, as every copy is. Throws bad_file as `readOwn`
 * does.
 */
export function fileStep(file: string, text: string, access: Access): Step {
  const seen = readOwn(file)
  const isOther = seen !== null && seen !== text
  const kept = isOther ? nameForKept(file, seen) : ''
  return {
    what: isOther ? `${file}; the old one is kept as ${kept}` : file,
    isDone: () => seen === text && hasAccess(lstatSync(file), access),
    async perform() {
      if (isOther) await writeFileWhole(kept, toChunks(seen), { replace: true })
      if (seen !== text) await writeFileWhole(file, toChunks(text), { replace: true })
      giveAccess(file, access)
    },
  }
}

/** The first name that holds no other copy: the oldest is what was there before any init. A link is no copy. */
function nameForKept(file: string, text: string): string {
  for (let number = 1; ; number += 1) {
    const name = `${file}.before-init${number === 1 ? '' : `-${number}`}`
    const there = statOf(name)
    if (!there?.isFile() || (there.uid === process.getuid?.() && readOwn(name) === text)) return name
  }
}

export const statOf = (path: string): Stats | undefined => lstatSync(path, { throwIfNoEntry: false })

const octal = (mode: number): string => mode.toString(8).padStart(4, '0')

function hasAccess({ uid, gid, mode: seen }: Stats, { mode, owner }: Access): boolean {
  const wanted = owner()
  return wanted?.uid === uid && wanted.gid === gid && (seen & 0o777) === mode
}

function giveAccess(path: string, { mode, owner }: Access): void {
  const { uid, gid } = owner() ?? { uid: -1, gid: -1 }
  onPlace(path, (place) => {
    fchownSync(place, uid, gid)
    fchmodSync(place, mode)
  })
}

/**
 * The text of a file that no other user could have written; null when there is none. Throws bad_file for a link, for
 * what is not a file, and for another user's file: root would otherwise copy what only root may read, or run what that
 * user wrote.
 */
function readOwn(file: string): string | null {
  if (!statOf(file)) return null
  return onPlace(file, (place) => {
    const { uid } = fstatSync(place)
    if (!fstatSync(place).isFile()) throw notPlain(file)
    if (uid === process.getuid?.()) return readFileSync(place, 'utf8')
    const mend = 'look at it, make it yours or move it away, then run init again'
    throw new Problem('bad_file', `${file} belongs to another user (uid ${uid}): ${mend}.`)
  })
}

/** Opens the file itself, never the target of a link, which may have appeared since the check. It does not block. */
function onPlace<T>(path: string, work: (place: number) => T): T {
  let place: number
  try {
    place = openUnlinked(path)
  } catch (error) {
    throw isLinkRefused(error) ? notPlain(path) : error
  }
  try {
    return work(place)
  } finally {
    closeSync(place)
  }
}

const notPlain = (path: string): Problem =>
  new Problem('bad_file', `${path} is a link or not a plain file: move it away, then run init again.`)

export async function* toChunks(text: string): AsyncIterable<string> {
  yield text
}

// The texts of deploy/ as init installs them: fitted to a file or to a server, and to the paths of the place.

/** A text of deploy/; for a server, without the conditions that are about the file. */
const jobText = (name: string, place: Place): string =>
  !isServer(place.database)
    ? readDeployed(name)
    : readDeployed(name).replace(/^(# Until the first start.*\n)?ConditionPathExists=.*\n/gm, '')

/** A text of deploy/ with the paths of another place. */
const relocated = (text: string, place: Place): string =>
  (['program', 'settings', 'backups', 'database', 'cache'] as const).reduce(
    (moved, key) => moved.replaceAll(SYSTEM[key], () => quoted(place[key])),
    text,
  )

// Whether two files are equal, without holding either in memory: an executable has more than 150 MB.

const PIECE_BYTES = 1 << 20

/** Throws the error of the file system for a file that cannot be read. */
export function haveSameContent(one: string, other: string): boolean {
  const files: number[] = []
  try {
    for (const name of [one, other]) files.push(openNamed(name))
    const [first = -1, second = -1] = files
    const [a, b] = [fstatSync(first), fstatSync(second)]
    if (a.dev === b.dev && a.ino === b.ino) return true
    return a.size === b.size && areAlike(first, second)
  } finally {
    for (const file of files) closeSync(file)
  }
}

function areAlike(one: number, other: number): boolean {
  const [here, there] = [Buffer.allocUnsafe(PIECE_BYTES), Buffer.allocUnsafe(PIECE_BYTES)]
  for (let at = 0; ; at += PIECE_BYTES) {
    const read = readWhole(one, here, at)
    if (readWhole(other, there, at) !== read) return false
    if (!here.subarray(0, read).equals(there.subarray(0, read))) return false
    if (read < PIECE_BYTES) return true
  }
}

/** Reads until the piece is full or the file ends; a single read may bring less. */
function readWhole(file: number, piece: Buffer, at: number): number {
  let read = 0
  while (read < piece.length) {
    const more = readSync(file, piece, read, piece.length - read, at + read)
    if (more === 0) break
    read += more
  }
  return read
}

// The first partner and its first key, made by the program that was just installed.

export type FirstPartner = { slug: string; name: string; environment: 'live' | 'test' }

/** As key create prints it: the only time that the key is shown. */
export type IssuedKey = { key_id: string; key: string }

const partnerStep = (place: Place, { slug, name }: FirstPartner): Step => ({
  what: `the partner ${slug}`,
  isDone: () => existsSync(place.program) && isMigrated(place) && hasPartner(place, slug),
  async perform() {
    // After --undo only the program that was just installed can tell that it is there.
    if (!hasPartner(place, slug)) await runWriting(place, ['partner', 'create', slug, '--name', name])
  },
})

function hasPartner(place: Place, slug: string): boolean {
  const partners = runInstalled(place, ['partner', 'list']) as { partner_slug: string }[]
  return partners.some((partner) => partner.partner_slug === slug)
}

/** Null while a key of the partner works. Made when all else is done, because it cannot be shown a second time. */
export async function firstKey(place: Place, { slug, environment }: FirstPartner): Promise<IssuedKey | null> {
  const keys = runInstalled(place, ['key', 'list', slug]) as { environment: string; usable: boolean }[]
  if (keys.some((key) => key.environment === environment && key.usable)) return null
  const issue = ['key', 'create', slug, '--env', environment, '--label', 'made by init']
  return (await runWriting(place, issue)) as IssuedKey
}

// The database that the jobs have used so far, where init is given one of the other kind: both must never take writes.

type Status = {
  partners: { active: number; disabled: number }
  findings: { kind: string }[]
  jobs: { job: string }[]
}

/**
 * What the settings name, if it is a file where the place has a server, or the reverse. Of two addresses nobody can
 * tell from outside whether they are one database.
 */
function formerDatabase(place: Place): string | null {
  const named = readSetting(place, 'TRANCHE_DB')
  return named !== undefined && isServer(named) !== isServer(place.database) ? named : null
}

/** Throws database_exists for a former database that has partners and is not sealed. */
function refuseUnsealed(place: Place): void {
  const former = formerDatabase(place)
  if (former === null || !existsSync(place.program)) return
  const status = statusOf({ ...place, database: former })
  if (status === null || status.partners.active + status.partners.disabled === 0) return
  if (status.findings.some(({ kind }) => kind === 'database_sealed')) return
  throw new Problem(
    'database_exists',
    `The jobs use ${shownAddress(former)}, which has partners and still takes writes: move it with \`tranche copy --seal\` ` +
      `first (\`tranche docs operations#moving-to-another-database\`), or begin anew without the line TRANCHE_DB of ${place.settings}.`,
  )
}

/** Null for one that is gone, or that the jobs cannot read any more. */
function statusOf(place: Place): Status | null {
  try {
    return runInstalled(place, ['status']) as Status
  } catch {
    return null
  }
}

// The settings of all jobs: which of them init writes into tranche.env, which lines it leaves, and who may read it.

type Settings = { priceFeed?: string; ping?: URL }

function settingsStep(place: Place, settings: Settings): Step {
  const file = place.settings
  const current = readOwn(file) ?? relocated(readDeployed('tranche.env'), place)
  const mode = place.user === null ? 0o600 : 0o640
  const step = fileStep(file, withSettings(current, place, settings), {
    mode,
    owner: () => readableBy(place),
  })
  return {
    ...step,
    what: `${step.what}, the settings of all jobs`,
    isDone() {
      refuseUnsealed(place)
      return step.isDone()
    },
  }
}

/** The settings, with those that were chosen replaced; every other line stays. */
function withSettings(text: string, place: Place, { priceFeed, ping }: Settings): string {
  // That of a file is root's to change.
  const isChosen = isServer(place.database) || formerDatabase(place) !== null
  const database = isChosen ? place.database : undefined
  const chosen = { TRANCHE_DB: database, TRANCHE_PRICE_FEED: priceFeed, TRANCHE_PING_URL: ping?.href }
  return Object.entries(chosen).reduce((settled, [name, value]) => {
    if (value === undefined) return settled
    const line = `${name}=${quoted(value)}`
    const places = [new RegExp(`^${name}=.*$`, 'm'), new RegExp(`^#${name}=.*$`, 'm')]
    const there = places.find((place) => place.test(settled))
    return there ? settled.replace(there, () => line) : `${settled}${line}\n`
  }, text)
}

/** Root's, so that the jobs cannot change their own settings, and theirs to read. */
function readableBy(place: Place): Ids | null {
  const ids = idsOf(place)
  return ids && place.user !== null ? { uid: 0, gid: ids.gid } : ids
}

// Runs the installed program as the user of its jobs, and other programs of the machine.

/** Runs another program. Throws when it is not there or fails, with what it said. */
export function run(file: string, argv: readonly string[], input = ''): string {
  const { error, status, stdout, stderr } = spawnSync(file, argv, { input, encoding: 'utf8' })
  if (error || status !== 0) {
    const why = error ? error.message : stderr.trim() || `exit code ${status}`
    throw new Problem('storage_failed', `${basename(file)} ${argv.join(' ')}: ${why}`)
  }
  return stdout
}

type Ids = { uid: number; gid: number }

/** The ids of the user that the jobs run as; null while there is none. */
export function idsOf({ user }: Place): Ids | null {
  if (user === null) return { uid: process.getuid?.() ?? -1, gid: process.getgid?.() ?? -1 }
  const { stdout } = spawnSync('getent', ['passwd', user], { encoding: 'utf8' })
  const [, , uid, gid] = (stdout ?? '').split(':')
  return uid && gid ? { uid: Number(uid), gid: Number(gid) } : null
}

/**
 * Runs a command of the installed program as the user of the jobs, on their database: what works here works for them.
 * Returns the JSON that it printed. Throws with that command's message.
 */
function runInstalled(place: Place, argv: readonly string[]): unknown {
  const ended = spawnSync(place.program, [...argv, '--json'], { ...asJobs(place), encoding: 'utf8' })
  return answerOf(place, argv, ended)
}

/** The same for a command that writes, which a server may hold up: other work goes on meanwhile. */
async function runWriting(
  place: Place,
  argv: readonly string[],
  done: number[] = [EXIT.done],
): Promise<unknown> {
  const child = spawn(place.program, [...argv, '--json'], asJobs(place))
  const closed = new Promise<{ error?: Error; status: number | null }>((resolve) => {
    child
      .on('close', (status) => resolve({ status }))
      .on('error', (error) => resolve({ error, status: null }))
  })
  child.stdin.end()
  const [stdout, stderr, ended] = await Promise.all([text(child.stdout), text(child.stderr), closed])
  const isDone = done.some((code) => code === ended.status)
  return answerOf(place, argv, { ...ended, ...(isDone && { status: EXIT.done }), stdout, stderr })
}

const asJobs = (place: Place) => ({
  ...(place.user === null ? {} : (idsOf(place) ?? {})),
  cwd: '/',
  env: {
    PATH: process.env.PATH,
    HOME: place.folder,
    TRANCHE_DB: place.database,
    TRANCHE_CACHE: place.cache,
  },
})

type Ended = { error?: Error; status: number | null; stdout: string; stderr: string }

function answerOf(place: Place, argv: readonly string[], { error, status, stdout, stderr }: Ended): unknown {
  if (error) throw new Problem('storage_failed', `${place.program}: ${error.message}`)
  if (status === 0) return JSON.parse(stdout)
  const last = stderr.trim().split('\n').at(-1) ?? ''
  const { code, message } = last.startsWith('{') ? JSON.parse(last).error : { code: 'failed', message: last }
  throw Object.assign(new Error(`${argv.join(' ')}: ${message}`), { code })
}

// Whether the started service answers its operator.

/** What it answers, and where it was asked. */
export type Answer = { ok: boolean; url: string; answer: string }

export function askService(place: Place): Answer {
  const url = serviceUrl((name) => readSetting(place, name))
  const { stdout } = spawnSync(place.program, ['health', '--url', url, '--json'], {
    ...asJobs(place),
    encoding: 'utf8',
  })
  const asked = stdout ? (JSON.parse(stdout) as Answer) : { ok: false, answer: 'tranche health failed' }
  return { ...asked, url }
}

// Reads a setting of the jobs on this machine.

/** The value of a setting; undefined for one that is not set. Throws bad_file as `readOwn` does. */
export function readSetting({ settings }: Pick<Place, 'settings'>, name: string): string | undefined {
  return settingsIn(readOwn(settings) ?? '')[name]
}
