// The database that the jobs have used so far, where init is told of one of the other kind: both must never take
// writes.

import { existsSync } from 'node:fs'
import { Problem } from '../../core/problem.ts'
import { isServer, shownAddress } from '../../store/address.ts'
import type { Place } from './install-places.ts'
import { readSetting } from './read-setting.ts'
import { runInstalled } from './run-installed.ts'

type Status = { partners: { active: number; disabled: number }; findings: { kind: string }[] }

/**
 * What the settings name, if it is a file where the place has a server, or the reverse. Of two addresses nobody can
 * tell from outside whether they are one database.
 */
export function formerDatabase(place: Place): string | null {
  const named = readSetting(place, 'TRANCHE_DB')
  return named !== undefined && isServer(named) !== isServer(place.database) ? named : null
}

/** Throws database_exists for a former database that has partners and is not sealed. */
export function refuseUnsealed(place: Place): void {
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
