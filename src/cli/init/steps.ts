// What init does, one step after the other: each knows whether it is done, how to do it and how to take it back.

import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  renameSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { Problem } from '../../core/problem.ts'
import { quoted } from '../../core/quote.ts'
import { readDeployed } from '../../resources.ts'
import { giveName, nameAside, writeFileWhole } from '../../whole-file.ts'
import {
  CRON_TABLE,
  type Ids,
  idsOf,
  type Place,
  run,
  runInstalled,
  type Scheduler,
  SYSTEM,
  UNITS,
} from './place.ts'

export type Step = {
  /** What there is once it is done. */
  what: string
  isDone: () => boolean
  perform: () => void | Promise<void>
  /** A command line that takes it back; null when there is no way back. */
  undo: string | null
}

/** What became of a step. */
export type Taken = { state: 'already' | 'done' | 'would'; what: string; undo: string | null }

export type Settings = { priceFeed?: string; ping?: URL }

/** All steps, in their order. */
export const stepsFor = (place: Place, scheduler: Scheduler, settings: Settings): Step[] => [
  ...(place.user === null ? [] : [programStep(place), userStep(place.user)]),
  ...folderSteps(place),
  settingsStep(place, settings),
  databaseStep(place),
  ...schedulerSteps(place, scheduler),
]

function programStep({ program }: Place): Step {
  const self = process.execPath
  return {
    what: `${program}, copied from ${self}`,
    isDone() {
      if (!existsSync(program)) return false
      if (readFileSync(program).equals(readFileSync(self))) return true
      const install = `install -m 0755 ${quoted(self)} ${program}`
      throw new Problem('file_exists', `${program} is another version: run \`${install}\`, then init again.`)
    },
    perform() {
      const aside = nameAside(program)
      copyFileSync(self, aside)
      chmodSync(aside, 0o755)
      giveName(aside, program, { replace: true })
    },
    undo: `rm ${program}`,
  }
}

const userStep = (user: string): Step => ({
  what: `the user ${user}, of the system, without a login`,
  isDone: () => idsOf(SYSTEM) !== null,
  perform() {
    const home = ['--home-dir', SYSTEM.folder, '--no-create-home', '--shell', '/usr/sbin/nologin']
    run('useradd', ['--system', '--user-group', ...home, user])
  },
  undo: `userdel ${user}`,
})

const LOST = '   # with the database and its backups'

function folderSteps(place: Place): Step[] {
  if (place.user === null) return [ownFolderStep(place.folder, LOST), ownFolderStep(place.backups)]
  const own = { mode: 0o700, owner: () => idsOf(place) }
  return [
    // Root's, so that the jobs cannot change their own settings, and theirs to read.
    folderStep(dirname(place.settings), { mode: 0o750, owner: () => readableBy(place) }),
    folderStep(place.folder, own, LOST),
    folderStep(place.backups, own),
    folderStep(place.cache, own),
  ]
}

type Access = { mode: number; owner: () => Ids | null }

/** Root's file, readable by the group of the jobs; without a user of the system it is simply one's own. */
function readableBy(place: Place): Ids | null {
  const ids = idsOf(place)
  return ids && place.user !== null ? { uid: 0, gid: ids.gid } : ids
}

function folderStep(folder: string, access: Access, lost = ''): Step {
  const seen = lstatSync(folder, { throwIfNoEntry: false })
  return {
    what: `${folder}/, mode ${octal(access.mode)}`,
    isDone() {
      if (seen && !seen.isDirectory())
        throw new Problem('bad_file', `${folder} is a link or a file: move it away, then run init again.`)
      return seen !== undefined && hasAccess(folder, access)
    },
    perform() {
      mkdirSync(folder, { recursive: true, mode: access.mode })
      giveAccess(folder, access)
    },
    undo: seen
      ? `chown ${seen.uid}:${seen.gid} ${folder} && chmod ${octal(seen.mode & 0o7777)} ${folder}`
      : `rm -r ${folder}${lost}`,
  }
}

/** A folder of one's own stays as it is when it is there: it may hold anything. */
function ownFolderStep(folder: string, lost = ''): Step {
  const step = folderStep(folder, { mode: 0o700, owner: () => null }, lost)
  return { ...step, isDone: () => existsSync(folder) }
}

const octal = (mode: number): string => mode.toString(8).padStart(4, '0')

function hasAccess(path: string, { mode, owner }: Access): boolean {
  const { uid, gid, mode: seen } = lstatSync(path)
  const wanted = owner()
  return wanted?.uid === uid && wanted.gid === gid && (seen & 0o777) === mode
}

function giveAccess(path: string, { mode, owner }: Access): void {
  const { uid, gid } = owner() ?? { uid: -1, gid: -1 }
  chownSync(path, uid, gid)
  chmodSync(path, mode)
}

function settingsStep(place: Place, settings: Settings): Step {
  const file = place.settings
  const current = existsSync(file)
    ? readFileSync(file, 'utf8')
    : relocated(readDeployed('tranche.env'), place)
  const text = withSettings(current, settings)
  const access = { mode: place.user === null ? 0o600 : 0o640, owner: () => readableBy(place) }
  return { ...fileStep(file, text, access), what: `${file}, the settings of all jobs` }
}

/** The settings with those that were chosen in the place of what was there, which keeps every other line. */
export function withSettings(text: string, { priceFeed, ping }: Settings): string {
  const chosen = { TRANCHE_PRICE_FEED: priceFeed, TRANCHE_PING_URL: ping?.href }
  return Object.entries(chosen).reduce((settled, [name, value]) => {
    if (value === undefined) return settled
    const line = `${name}=${quoted(value)}`
    const there = new RegExp(`^${name}=.*$`, 'm')
    const proposed = new RegExp(`^#${name}=.*$`, 'm')
    for (const place of [there, proposed]) if (place.test(settled)) return settled.replace(place, () => line)
    return `${settled}${line}\n`
  }, text)
}

/** A text of deploy/ with the paths of another place. */
export const relocated = (text: string, place: Place): string =>
  (['program', 'settings', 'backups', 'database', 'cache'] as const).reduce(
    (moved, key) => moved.replaceAll(SYSTEM[key], () => place[key]),
    text,
  )

function fileStep(file: string, text: string, access: Access): Step {
  const isThere = () => existsSync(file) && readFileSync(file, 'utf8') === text
  return {
    what: file,
    isDone: () => isThere() && hasAccess(file, access),
    async perform() {
      if (!isThere()) await writeFileWhole(file, toChunks(text), { replace: true })
      giveAccess(file, access)
    },
    undo: `rm ${file}`,
  }
}

async function* toChunks(text: string): AsyncIterable<string> {
  yield text
}

function databaseStep(place: Place): Step {
  const { database, folder, user } = place
  return {
    what: `${database}, the database`,
    isDone() {
      if (!existsSync(database)) return false
      const owner = lstatSync(database).uid
      if (owner === idsOf(place)?.uid) return isMigrated(place)
      const mend = `chown -R ${user ?? ''}: ${folder}`
      throw new Problem('bad_file', `${database} belongs to another user (uid ${owner}): run \`${mend}\`.`)
    },
    perform() {
      runInstalled(place, ['migrate'])
    },
    undo: existsSync(database) ? null : `rm ${database}*`,
  }
}

function isMigrated(place: Place): boolean {
  const states = runInstalled(place, ['migrate', '--status']) as { applied_at: string | null }[]
  return states.every((state) => state.applied_at !== null)
}

function schedulerSteps(place: Place, scheduler: Scheduler): Step[] {
  if (scheduler === 'none') return []
  if (scheduler === 'systemd')
    return [...UNIT_NAMES.map((name) => jobFileStep(`${UNITS}/${name}`, name)), startStep]
  return place.user === null ? [crontabStep(place)] : [jobFileStep(CRON_TABLE, 'tranche.cron')]
}

const STARTED = ['tranche.service', 'tranche-tick.timer', 'tranche-backup.timer']
const UNIT_NAMES = [...STARTED, 'tranche-tick.service', 'tranche-backup.service']

/** What an operator has changed in such a file is kept beside it, under a name that neither systemd nor cron reads. */
function jobFileStep(file: string, name: string): Step {
  const root = { mode: 0o644, owner: () => ({ uid: 0, gid: 0 }) }
  const text = readDeployed(name)
  const step = fileStep(file, text, root)
  const isOther = existsSync(file) && readFileSync(file, 'utf8') !== text
  return {
    ...step,
    what: isOther ? `${file}; what was there is kept as ${file}.before-init` : file,
    async perform() {
      if (isOther) renameSync(file, `${file}.before-init`)
      await step.perform()
    },
  }
}

const startStep: Step = {
  what: `${STARTED.join(', ')}, started now and at each boot`,
  isDone: () => false,
  perform() {
    run('systemctl', ['daemon-reload'])
    run('systemctl', ['enable', '--now', ...STARTED])
  },
  undo: `systemctl disable --now ${STARTED.join(' ')}`,
}

const [BEGIN, END] = ['# tranche init: begin', '# tranche init: end']

/** The jobs as lines of a user's own crontab, which has no column for the user. */
export const crontabLines = (place: Place): string =>
  relocated(readDeployed('tranche.cron'), place)
    .split('\n')
    .filter((line) => /^[\d*]/.test(line))
    .map((line) => line.replace(/ tranche {2}\{/, ' {'))
    .join('\n')

function crontabStep(place: Place): Step {
  const block = `${BEGIN}\n${crontabLines(place)}\n${END}\n`
  const current = (): string => {
    try {
      return run('crontab', ['-l'])
    } catch (error) {
      // Anything else must not be taken for an empty one, which the new one would replace.
      if (/\bno crontab for\b/.test((error as Error).message)) return ''
      throw error
    }
  }
  const others = (text: string): string => text.replace(new RegExp(`${BEGIN}\n[\\s\\S]*?${END}\n`), '')
  return {
    what: 'the jobs in your crontab',
    isDone: () => current().includes(block),
    perform() {
      run(
        'crontab',
        ['-'],
        others(current())
          .replace(/(?<!\n)$/, '\n')
          .replace(/^\n/, '') + block,
      )
    },
    undo: `crontab -l | sed '/^${BEGIN}$/,/^${END}$/d' | crontab -`,
  }
}
