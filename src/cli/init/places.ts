// Where init puts things: for root, the places that deploy/ names; for other users, a folder of their own. And what
// runs the jobs there.

import { accessSync, constants, existsSync, lstatSync } from 'node:fs'
import { delimiter, dirname, join, resolve } from 'node:path'
import { isSea } from 'node:sea'
import { Problem, usage } from '../../core/problem.ts'
import { INSTALLED, isServer, refuseNoAddress } from '../../store/address.ts'
import { ownFolder, SERVICE, UNITS } from '../installed.ts'

export type Place = {
  program: string
  settings: string
  folder: string
  /** A file, or an address with its password: for the settings only, never to be shown. */
  database: string
  backups: string
  cache: string
  /** The system user that the jobs run as; null for the user who runs init. */
  user: string | null
}

/** As deploy/ has them. */
export const SYSTEM: Place = {
  program: '/usr/local/bin/tranche',
  settings: SERVICE.settings,
  folder: INSTALLED.folder,
  database: '/var/lib/tranche/tranche.db',
  backups: '/var/lib/tranche/backups',
  cache: '/var/cache/tranche',
  user: SERVICE.user,
}

/**
 * The places for the user who runs init; `db` is what --db or TRANCHE_DB names. Throws usage for root with another
 * database than the units have, for root without the executable, and for a path that a crontab could not hold.
 */
export function placeFor(db: string | null): Place {
  if (db !== null) refuseNoAddress(db)
  if (process.getuid?.() === 0) return systemPlace(db)
  const ownFile = join(ownFolder(process.env), 'tranche.db')
  const file = resolve(db === null || isServer(db) ? ownFile : db)
  const folder = dirname(file)
  const place = {
    program: ownProgram(),
    settings: join(folder, 'tranche.env'),
    folder,
    database: db !== null && isServer(db) ? db : file,
    backups: join(folder, 'backups'),
    cache: join(folder, 'cache'),
    user: null,
  }
  for (const path of [place.program, file])
    if (!/^[\w@+=:,./-]+$/.test(path))
      throw usage(`A crontab cannot hold ${path}: use a path of letters, digits and @_+=:,./- .`)
  refuseClosedFolder(place)
  return place
}

/** Throws bad_file for a folder of another user that is closed, as that of the service is. */
function refuseClosedFolder({ folder, backups }: Place): void {
  try {
    lstatSync(backups)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EACCES') return
    const hint = 'leave out --db and TRANCHE_DB, or name a file in a folder of your own'
    throw new Problem('bad_file', `${folder} belongs to another user and may not be entered: ${hint}.`)
  }
}

function systemPlace(db: string | null): Place {
  const onServer = db !== null && isServer(db)
  if (db !== null && !onServer && resolve(db) !== SYSTEM.database) {
    const hint = 'leave out --db and TRANCHE_DB, or run init as another user'
    throw usage(`For root the database is ${SYSTEM.database}, where the jobs look for it: ${hint}.`)
  }
  if (isSea()) return onServer ? { ...SYSTEM, database: db } : SYSTEM
  const hint = 'npm run build makes dist/tranche; run that with init'
  throw usage(`For root init sets up the executable, and this is a checkout: ${hint}.`)
}

/** The file that starts this very program. */
function ownProgram(): string {
  const script = process.argv[1]
  return !isSea() && script?.endsWith('tranche.mjs') ? join(dirname(script), 'tranche') : process.execPath
}

// The scheduler of the jobs: what this machine has, what runs them already, and what may be asked for instead.

export type Scheduler = 'systemd' | 'cron' | 'none'

/** The jobs of root with cron. */
export const CRON_TABLE = '/etc/cron.d/tranche'

/** The schedulers that root's jobs are installed for. */
export const installedSchedulers = (): readonly Scheduler[] => [
  ...(existsSync(`${UNITS}/tranche.service`) ? (['systemd'] as const) : []),
  ...(existsSync(CRON_TABLE) ? (['cron'] as const) : []),
]

/** The scheduler of root's jobs unless another one is requested: the installed one, else the machine's. */
export const usualScheduler = (): Scheduler =>
  installedSchedulers().join() === 'cron' ? 'cron' : schedulerOfMachine()

/**
 * What runs the jobs of a place. Throws usage where systemd was asked for and cannot be had, and where the jobs are
 * installed for the other one: two serves would want one port, and two backups a night halve what is kept of them.
 */
export function schedulerFor({ user }: Place, requested: Scheduler | undefined): Scheduler {
  const ofMachine = schedulerOfMachine()
  const scheduler = requested ?? (user === null ? 'none' : usualScheduler())
  if (scheduler === 'systemd' && user === null)
    throw usage('Only root installs units; --scheduler cron uses a crontab of your own.')
  if (scheduler === 'systemd' && ofMachine !== 'systemd')
    throw usage('systemd does not run this machine: choose --scheduler cron or none.')
  const [present, ...more] = installedSchedulers()
  if (user === null || scheduler === 'none' || more.length > 0) return scheduler
  if (scheduler === 'systemd' && present === 'cron')
    throw usage(
      `The jobs are in ${CRON_TABLE}: take them away with \`tranche init --undo\`, stop the serve of your supervisor, then run init again.`,
    )
  // Units on a machine that systemd does not run are in nobody's way.
  if (scheduler === 'cron' && present === 'systemd' && ofMachine === 'systemd')
    throw usage(
      'The jobs are units of systemd: take them away with `tranche init --undo`, then run init again.',
    )
  return scheduler
}

/** The machine's scheduler: systemd if it was booted with it, otherwise cron if that is installed. */
export function schedulerOfMachine(): Scheduler {
  if (existsSync('/run/systemd/system')) return 'systemd'
  return hasCron() ? 'cron' : 'none'
}

export const hasCron = (): boolean => isOnPath('cron') || isOnPath('crond')

export const isOnPath = (name: string): boolean =>
  [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/sbin'].some((folder) => {
    try {
      accessSync(join(folder, name), constants.X_OK)
      return true
    } catch {
      return false
    }
  })
