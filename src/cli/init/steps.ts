// What init does, one step after the other: each knows whether it is done, how to do it and how to undo it.

import { chmodSync, copyFileSync, existsSync, lstatSync, readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { Problem } from '../../core/problem.ts'
import { quoted } from '../../core/shell-word.ts'
import { readDeployed } from '../../resources.ts'
import { isServer, shownAddress } from '../../store/address.ts'
import { giveName, nameAside } from '../../whole-file.ts'
import { relocated } from './deployed-texts.ts'
import { fileStep, folderStep, ownFolderStep, readOwn, undoOf } from './file-steps.ts'
import { formerDatabase, refuseUnsealed } from './former-database.ts'
import {
  type Ids,
  idsOf,
  type Place,
  run,
  runInstalled,
  runWriting,
  type Scheduler,
  SYSTEM,
} from './install-places.ts'
import type { Step } from './step.ts'
import { jobSteps } from './systemd-and-cron-steps.ts'

export type Settings = { priceFeed?: string; ping?: URL }

/** All steps, in their order. */
export const stepsFor = (place: Place, scheduler: Scheduler, settings: Settings): Step[] => [
  ...(place.user === null ? [] : [programStep(place), userStep(place.user)]),
  ...folderSteps(place),
  settingsStep(place, settings),
  databaseStep(place),
  ...jobSteps(place, scheduler),
]

function programStep({ program }: Place): Step {
  const self = process.execPath
  return {
    what: `${program}, the program`,
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
  what: `the system user ${user}, who cannot log in`,
  isDone: () => idsOf(SYSTEM) !== null,
  perform() {
    const home = ['--home-dir', SYSTEM.folder, '--no-create-home', '--shell', '/usr/sbin/nologin']
    run('useradd', ['--system', '--user-group', ...home, user])
  },
  undo: `userdel ${user}`,
})

/** What else is removed with the folder. */
const lostWith = ({ database }: Place): string =>
  isServer(database)
    ? '   # with the backups; the database stays on its server'
    : '   # with the database and its backups'

function folderSteps(place: Place): Step[] {
  if (place.user === null) return [ownFolderStep(place.folder, lostWith(place)), ownFolderStep(place.backups)]
  const own = { mode: 0o700, owner: () => idsOf(place) }
  return [
    folderStep(dirname(place.settings), { mode: 0o750, owner: () => readableBy(place) }),
    folderStep(place.folder, own, lostWith(place)),
    folderStep(place.backups, own),
    folderStep(place.cache, own),
  ]
}

/** Root's, so that the jobs cannot change their own settings, and theirs to read. */
function readableBy(place: Place): Ids | null {
  const ids = idsOf(place)
  return ids && place.user !== null ? { uid: 0, gid: ids.gid } : ids
}

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

function databaseStep(place: Place): Step {
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
