// The steps of init, each of which knows whether it is done and how to do it, and the steps of --undo.

import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  constants,
  copyFileSync,
  existsSync,
  globSync,
  lstatSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { Problem } from '../../core/problem.ts'
import { quoted } from '../../core/text.ts'
import { readDeployed } from '../../resources.ts'
import { isServer, shownAddress } from '../../store/address.ts'
import { giveName, nameAside, writeFileWhole } from '../../whole-file.ts'
import { EXIT } from '../exit-codes.ts'
import { UNITS } from '../installed.ts'
import {
  fileStep,
  folderStep,
  haveSameContent,
  type Ids,
  ownFolderStep,
  readOwn,
  type Step,
  statOf,
} from './file-steps.ts'
import { idsOf, readSetting, run, runInstalled, runWriting } from './installed-program.ts'
import { CRON_TABLE, isOnPath, type Place, type Scheduler, SYSTEM, schedulerOfMachine } from './places.ts'

/** All steps, in their order. When the jobs start there is a first partner, so serve has nothing to warn of. */
export const stepsFor = (
  place: Place,
  scheduler: Scheduler,
  { partner, start, ...settings }: Settings & { partner: FirstPartner | null; start: boolean },
): Step[] => [
  ...(place.user === null ? [] : [programStep(place), userStep(place.user)]),
  ...folderSteps(place),
  settingsStep(place, settings),
  ...(start ? [databaseStep(place)] : []),
  ...(partner ? [partnerStep(place, partner)] : []),
  ...jobSteps(place, scheduler, start),
  ...(scheduler === 'none' || !start ? [] : [firstRunStep(place)]),
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
  const rights = { mode: 0o700, owner: () => idsOf(place) }
  return [
    folderStep(dirname(place.settings), { mode: 0o750, owner: () => readableBy(place) }),
    folderStep(place.folder, rights),
    folderStep(place.backups, rights),
    folderStep(place.cache, rights),
  ]
}

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
function withoutJobs(crontab: string): string {
  const left = crontab.replace(new RegExp(`${BEGIN}\n[\\s\\S]*?${END}\n`), '')
  return left === '' || left.endsWith('\n') ? left : `${left}\n`
}

function currentCrontab(): string {
  try {
    return run('crontab', ['-l'])
  } catch (error) {
    // No other failure may count as an empty crontab, which the new one would replace.
    if (/\bno crontab for\b/.test((error as Error).message)) return ''
    throw error
  }
}

/** The files that init has written, each with its hash, as sha256sum reads them: it shows which ones were edited. */
const writtenList = ({ settings }: Place): string => `${dirname(settings)}/init.sha256`

/** The guide's folder named in the units. */
const UNIT_GUIDE = '/usr/local/share/tranche'
const TIMED = ['tranche-tick', 'tranche-check', 'tranche-backup']
const STARTED = ['tranche.service', ...TIMED.map((name) => `${name}.timer`)]
/** Started by a good backup, where the settings name a repository. */
const OFFSITE = 'tranche-offsite.service'
const UNIT_NAMES = [...STARTED, ...TIMED.map((name) => `${name}.service`), OFFSITE]

/**
 * A file that is kept gets a name that neither systemd nor cron reads. Cron starts what it finds, so without a start it
 * finds nothing.
 */
function jobSteps(place: Place, scheduler: Scheduler, start: boolean): Step[] {
  if (scheduler === 'none' || (scheduler === 'cron' && !start)) return []
  if (scheduler === 'cron' && place.user === null) return [crontabStep(place)]
  const root = { mode: 0o644, owner: () => ({ uid: 0, gid: 0 }), written: writtenList(place) }
  if (scheduler === 'cron') return [fileStep(CRON_TABLE, jobText('tranche.cron', place), root)]
  return [
    folderStep(UNIT_GUIDE, { ...root, mode: 0o755 }),
    fileStep(`${UNIT_GUIDE}/README.md`, readDeployed('README.md'), root),
    ...UNIT_NAMES.filter((name) => name !== OFFSITE || hasRepository(place)).map((name) =>
      fileStep(`${UNITS}/${name}`, jobText(name, place), root),
    ),
    ...(start ? [startStep()] : []),
  ]
}

/** Runs the nightly jobs once: a failure shows now, and from the first result on, a missing one is noticed. */
function firstRunStep(place: Place): Step {
  const jobs = [['check', '--daily'] as const, ['backup', place.backups, '--keep', '14'] as const]
  const due = () => {
    const { jobs: ran, frozen } = runInstalled(place, ['status']) as Status
    // A moved database takes no result.
    if (frozen?.kind === 'moved') return []
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

const hasRepository = ({ settings }: Place): boolean => /^RESTIC_REPOSITORY=./m.test(readOwn(settings) ?? '')

/** A text of deploy/, without its lines for a file or a repository where there is none. */
function jobText(name: string, place: Place): string {
  const text = readDeployed(name)
  const fitted = hasRepository(place) ? text : text.replace(/^(# Where .*\n)?OnSuccess=.*\n/gm, '')
  return isServer(place.database)
    ? fitted.replace(/^(# Until the first start.*\n)?ConditionPathExists=.*\n/gm, '')
    : fitted
}

/** A text of deploy/ with the paths of another place. */
const relocated = (text: string, place: Place): string =>
  (['program', 'settings', 'backups', 'database', 'cache'] as const).reduce(
    (moved, key) => moved.replaceAll(SYSTEM[key], () => quoted(place[key])),
    text,
  )

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
  frozen: { kind: string } | null
  jobs: { job: string }[]
}

/** The database in the settings, if it is a file where the place has a server, or the reverse. */
function formerDatabase(place: Place): string | null {
  const named = readSetting(place, 'TRANCHE_DB')
  return named !== undefined && isServer(named) !== isServer(place.database) ? named : null
}

/** Throws database_exists for a former database that has partners and has not moved. */
function refuseUnmoved(place: Place): void {
  const former = formerDatabase(place)
  if (former === null || !existsSync(place.program)) return
  const status = statusOf({ ...place, database: former })
  if (status === null || status.partners.active + status.partners.disabled === 0) return
  if (status.frozen?.kind === 'moved') return
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

type Settings = { priceFeed?: string | undefined; ping?: URL | undefined }

function settingsStep(place: Place, settings: Settings): Step {
  const file = place.settings
  const current = readOwn(file) ?? relocated(readDeployed('tranche.env'), place)
  const mode = place.user === null ? 0o600 : 0o640
  const step = fileStep(file, withSettings(current, place, settings), {
    mode,
    owner: () => readableBy(place),
    written: writtenList(place),
  })
  return {
    ...step,
    what: `${step.what}, the settings of all jobs`,
    isDone() {
      refuseUnmoved(place)
      return step.isDone()
    },
  }
}

/** The settings, with those that were chosen replaced; every other line stays. */
function withSettings(text: string, place: Place, { priceFeed, ping }: Settings): string {
  // Only root changes the address of a file.
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

// init --undo: takes the jobs and the program off the machine. What holds money or was written by a person stays, and
// is named with the command that removes it.

type UndoStep = { what: string; perform: () => void | Promise<void> }
export type Left = { what: string; remedy: string }

/** What there is to take away, in the order in which it goes: the program is the last. */
export const undoSteps = (place: Place): UndoStep[] =>
  place.user === null
    ? [...crontabLeft(), ...removal([`${place.cache}/`])]
    : [
        ...unitSteps(),
        ...cronTableSteps(place),
        ...removal([`${UNIT_GUIDE}/README.md`, `${place.cache}/`, place.program]),
      ]

/** A link is removed, and not what it leads to. A folder of ours that is empty then goes with its last file. */
const removal = (paths: readonly string[]): UndoStep[] =>
  paths
    .filter((path) => statOf(path.replace(/\/$/, '')))
    .map((path) => ({
      what: `${path} removed`,
      perform() {
        rmSync(path.replace(/\/$/, ''), { recursive: true })
        if (dirname(path) === UNIT_GUIDE && readdirSync(UNIT_GUIDE).length === 0) rmdirSync(UNIT_GUIDE)
      },
    }))

/** Stopped before their files go: systemd would otherwise keep running what nobody can name any more. */
function unitSteps(): UndoStep[] {
  const present = UNIT_NAMES.filter((name) => statOf(`${UNITS}/${name}`))
  const isRun = schedulerOfMachine() === 'systemd'
  const started = STARTED.filter((name) => present.includes(name))
  const stamps = STARTED.map((name) => `/var/lib/systemd/timers/stamp-${name}`)
  const links = globSync(`${UNITS}/*.wants/{${UNIT_NAMES.join()}}`)
  const stop = {
    what: `${present.join(', ')} stopped, and started at no boot`,
    perform() {
      // The timers go first, so that none starts what was just stopped.
      run('systemctl', ['disable', '--now', ...[...started].reverse()])
      run('systemctl', ['stop', ...present])
    },
  }
  const forget = {
    what: 'systemd told that they are gone',
    perform() {
      run('systemctl', ['daemon-reload'])
      // A failed unit would stay listed. The complaint about an unknown one is ignored.
      for (const name of present) spawnSync('systemctl', ['reset-failed', name])
    },
  }
  const files = [
    ...present.map((name) => `${UNITS}/${name}`),
    ...UNIT_NAMES.map((name) => `${UNITS}/${name}.d/`),
    ...stamps,
  ]
  const removed = [...removal(files), ...(isRun ? [] : removal(links))]
  return [
    ...(isRun && present.length > 0 ? [stop] : []),
    ...removed,
    ...(isRun && removed.length > 0 ? [forget] : []),
  ]
}

/** The table of the jobs, or only their lines where somebody has added others. */
function cronTableSteps({ program }: Place): UndoStep[] {
  if (!statOf(CRON_TABLE)?.isFile()) return []
  const lines = readFileSync(CRON_TABLE, 'utf8').split('\n')
  const others = lines.filter((line) => !line.includes(`${program} `))
  if (!others.some((line) => /^[^#\s]/.test(line) && !/^\w+\s*=/.test(line))) return removal([CRON_TABLE])
  return [
    {
      what: `the jobs in ${CRON_TABLE} removed; its other lines stay`,
      async perform() {
        await writeFileWhole(CRON_TABLE, [others.join('\n')], { replace: true })
        // Cron reads no table that only root may read.
        chmodSync(CRON_TABLE, 0o644)
      },
    },
  ]
}

function crontabLeft(): UndoStep[] {
  const crontab = isOnPath('crontab') ? currentCrontab() : ''
  const left = withoutJobs(crontab)
  if (left === crontab) return []
  return [
    {
      what: 'the jobs in your crontab removed; its other lines stay',
      perform: () => void (left === '' ? run('crontab', ['-r']) : run('crontab', ['-'], left)),
    },
  ]
}

/** Files that the guides have an operator create. */
const MADE_BY_HAND = [
  { path: '/etc/letsencrypt/renewal-hooks/deploy/tranche', what: 'the hook of certbot, which would fail' },
  { path: `${SYSTEM.program}-before`, what: 'the program before the last upgrade' },
  { path: '/usr/local/share/doc/tranche', what: 'the licences' },
]

export function leftBehind(place: Place): Left[] {
  const { database, folder, backups, settings, user } = place
  const moved =
    isServer(database) && existsSync(SYSTEM.database)
      ? ', and the file that has moved, to be kept until its month is closed'
      : ''
  const data = isServer(database)
    ? `the backups${moved}; the database stays on its server, ${shownAddress(database)}`
    : 'the database and its backups, to be kept for your books'
  if (user === null) {
    // The folder is a person's own, and may hold anything.
    const files = [
      settings,
      writtenList(place),
      ...(isServer(database) ? [] : [`${database}*`]),
      `${backups}/`,
    ]
    return existsSync(folder) ? [{ what: `the settings, ${data}`, remedy: `rm -r ${files.join(' ')}` }] : []
  }
  const replaced = globSync([`${UNITS}/tranche*.before-init*`, `${CRON_TABLE}.before-init*`])
  const left = replaced.map((file) => ({ what: `${file}, which was there before`, remedy: `rm ${file}` }))
  for (const { path, what } of MADE_BY_HAND)
    if (existsSync(path)) left.push({ what: `${path}, ${what}`, remedy: `rm -r ${path}` })
  const config = dirname(settings)
  if (existsSync(config)) left.push({ what: `${config}/, the settings`, remedy: `rm -r ${config}` })
  if (existsSync(folder)) left.push({ what: `${folder}/, ${data}`, remedy: `rm -r ${folder}` })
  // Without the user, the files would belong to whoever is given the number next.
  if (idsOf(place) !== null) left.push({ what: `the user ${user}, who owns them`, remedy: `userdel ${user}` })
  return left
}
