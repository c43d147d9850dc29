// Where init puts things: for root, the places that deploy/ names; for anybody else, a folder of their own.

import { spawn, spawnSync } from 'node:child_process'
import { accessSync, constants, existsSync, lstatSync } from 'node:fs'
import { basename, delimiter, dirname, join, resolve } from 'node:path'
import { isSea } from 'node:sea'
import { text } from 'node:stream/consumers'
import { Problem } from '../../core/problem.ts'
import { isServer, refuseNoAddress } from '../../store/address.ts'

export type Scheduler = 'systemd' | 'cron' | 'none'

export type Place = {
  /** The program that the jobs run. */
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
  settings: '/etc/tranche/tranche.env',
  folder: '/var/lib/tranche',
  database: '/var/lib/tranche/tranche.db',
  backups: '/var/lib/tranche/backups',
  cache: '/var/cache/tranche',
  user: 'tranche',
}

/**
 * The places for the user who runs init; `db` is what --db or TRANCHE_DB names. Throws usage for root with another
 * database than the units have, for root without the executable, and for a path that a crontab could not hold.
 */
export function placeFor(db: string | null): Place {
  if (db !== null) refuseNoAddress(db)
  if (process.getuid?.() === 0) return systemPlace(db)
  const { XDG_DATA_HOME: data, HOME: home = '' } = process.env
  const own = join(data || join(home, '.local/share'), 'tranche/tranche.db')
  const file = resolve(db === null || isServer(db) ? own : db)
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
      throw new Problem(
        'usage',
        `A crontab cannot hold ${path}: use a path of letters, digits and @_+=:,./- .`,
      )
  refuseClosedFolder(place)
  return place
}

/**
 * Throws bad_file when the folder is somebody else's and closed, as that of the service is to other users of the
 * machine.
 */
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
    throw new Problem(
      'usage',
      `For root the database is ${SYSTEM.database}, where the jobs look for it: ${hint}.`,
    )
  }
  if (isSea()) return onServer ? { ...SYSTEM, database: db } : SYSTEM
  const hint = 'npm run build makes dist/tranche; run that with init'
  throw new Problem('usage', `For root init sets up the executable, and this is a checkout: ${hint}.`)
}

/** The file that starts this very program. */
function ownProgram(): string {
  const script = process.argv[1]
  return !isSea() && script?.endsWith('tranche.mjs') ? join(dirname(script), 'tranche') : process.execPath
}

/** What the machine runs jobs with: systemd if it was booted with it, otherwise cron if that is installed. */
export function schedulerOfMachine(): Scheduler {
  if (existsSync('/run/systemd/system')) return 'systemd'
  return isOnPath('cron') || isOnPath('crond') ? 'cron' : 'none'
}

export const isOnPath = (name: string): boolean =>
  [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/sbin'].some((folder) => {
    try {
      accessSync(join(folder, name), constants.X_OK)
      return true
    } catch {
      return false
    }
  })

/** Runs another program. Throws when it is not there or fails, with what it said. */
export function run(file: string, argv: readonly string[], input = ''): string {
  const { error, status, stdout, stderr } = spawnSync(file, argv, { input, encoding: 'utf8' })
  if (error || status !== 0) {
    const why = error ? error.message : stderr.trim() || `exit code ${status}`
    throw new Problem('storage_failed', `${basename(file)} ${argv.join(' ')}: ${why}`)
  }
  return stdout
}

export type Ids = { uid: number; gid: number }

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
export function runInstalled(place: Place, argv: readonly string[]): unknown {
  const ended = spawnSync(place.program, [...argv, '--json'], { ...asJobs(place), encoding: 'utf8' })
  return answerOf(place, argv, ended)
}

/** The same for a command that writes, which a server may hold up: other work goes on meanwhile. */
export async function runWriting(place: Place, argv: readonly string[]): Promise<unknown> {
  const child = spawn(place.program, [...argv, '--json'], asJobs(place))
  const closed = new Promise<{ error?: Error; status: number | null }>((resolve) => {
    child
      .on('close', (status) => resolve({ status }))
      .on('error', (error) => resolve({ error, status: null }))
  })
  child.stdin.end()
  const [stdout, stderr, ended] = await Promise.all([text(child.stdout), text(child.stderr), closed])
  return answerOf(place, argv, { ...ended, stdout, stderr })
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
