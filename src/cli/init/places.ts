// Where init puts things: for root, the places that deploy/ names; for other users, a folder of their own.

import { lstatSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { isSea } from 'node:sea'
import { Problem } from '../../core/problem.ts'
import { INSTALLED, isServer, refuseNoAddress } from '../../store/address.ts'
import { ownFolder, SERVICE } from '../installed.ts'

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
  const own = join(ownFolder(process.env), 'tranche.db')
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
