// The database of the jobs: made and migrated by the installed program, as their user.

import { existsSync, lstatSync } from 'node:fs'
import { Problem } from '../../core/problem.ts'
import { isServer, shownAddress } from '../../store/address.ts'
import { undoOf } from './file-steps.ts'
import type { Place } from './install-places.ts'
import { idsOf, runInstalled, runWriting } from './run-installed.ts'
import type { Step } from './step.ts'

/** Its schema is not undone: its data is on another machine, and others may use it too. */
function schemaStep(place: Place): Step {
  return {
    what: `${shownAddress(place.database)}, the database`,
    isDone: () => existsSync(place.program) && isMigrated(place),
    async perform() {
      await runWriting(place, ['migrate'])
    },
    undo: null,
  }
}

export function databaseStep(place: Place): Step {
  const { database, folder, user } = place
  if (isServer(database)) return schemaStep(place)
  return {
    what: `${database}, the database`,
    isDone() {
      if (!existsSync(database)) return false
      const owner = lstatSync(database).uid
      if (owner === idsOf(place)?.uid) return isMigrated(place)
      const mend =
        user === null ? 'run init as that user' : `run \`chown -R ${user}: ${folder}\`, then init again`
      throw new Problem('bad_file', `${database} belongs to another user (uid ${owner}): ${mend}.`)
    },
    async perform() {
      await runWriting(place, ['migrate'])
    },
    undo: existsSync(database) ? null : undoOf(database, `rm ${database}*`),
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
