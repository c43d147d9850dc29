// init --undo: takes the jobs and the program off the machine. What holds money or was written by a person stays, and
// is named with the command that removes it.

import { chmodSync, existsSync, globSync, readdirSync, readFileSync, rmdirSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { isServer, shownAddress } from '../../store/address.ts'
import { writeFileWhole } from '../../whole-file.ts'
import { UNITS } from '../installed.ts'
import { indented, stepLines } from './dialogue.ts'
import { isOnPath, type Place, schedulerOfMachine } from './places.ts'
import {
  CRON_TABLE,
  currentCrontab,
  idsOf,
  run,
  STARTED,
  statOf,
  type Taken,
  toChunks,
  UNIT_GUIDE,
  UNIT_NAMES,
  withoutJobs,
} from './steps.ts'

type UndoStep = { what: string; perform: () => void | Promise<void> }
type Left = { what: string; remedy: string }

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
      // One that had failed would stay in its list. It complains of one that it does not know.
      for (const name of present) runLoosely('systemctl', ['reset-failed', name])
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

function runLoosely(file: string, argv: readonly string[]): void {
  try {
    run(file, argv)
  } catch {
    // There is nothing to do about it.
  }
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
        await writeFileWhole(CRON_TABLE, toChunks(others.join('\n')), { replace: true })
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

/** What stays, and what would remove it. */
export function leftBehind(place: Place): Left[] {
  const { database, folder, backups, settings, user } = place
  const data = isServer(database)
    ? `the backups; the database stays on its server, ${shownAddress(database)}`
    : 'the database and its backups'
  if (user === null) {
    // The folder is a person's own, and may hold anything.
    const files = [settings, ...(isServer(database) ? [] : [`${database}*`]), `${backups}/`]
    return existsSync(folder) ? [{ what: `the settings, ${data}`, remedy: `rm -r ${files.join(' ')}` }] : []
  }
  const kept = globSync([`${UNITS}/tranche*.before-init*`, `${CRON_TABLE}.before-init*`])
  const left = kept.map((file) => ({ what: `${file}, which was there before`, remedy: `rm ${file}` }))
  const config = dirname(settings)
  if (existsSync(config)) left.push({ what: `${config}/, the settings`, remedy: `rm -r ${config}` })
  if (existsSync(folder)) left.push({ what: `${folder}/, ${data}`, remedy: `rm -r ${folder}` })
  // Without the user, the files would belong to whoever is given the number next.
  if (idsOf(place) !== null) left.push({ what: `the user ${user}, who owns them`, remedy: `userdel ${user}` })
  return left
}

export function undoLines(taken: readonly Taken[], left: readonly Left[]): string[] {
  const done = taken.length > 0 ? stepLines(taken) : ['Nothing of init is on this machine.']
  if (left.length === 0) return done
  return [
    ...done,
    ...left.map(({ what }) => `left     ${what}`),
    '',
    'What is left can be removed for good, once nobody needs it any more:',
    ...left.map(({ remedy }) => indented(remedy)),
  ]
}
