// What init does, one step after the other; those for the program, its user and its folders are here. Each step knows
// whether it is done, how to do it and how to undo it.

import { chmodSync, constants, copyFileSync, existsSync } from 'node:fs'
import { dirname } from 'node:path'
import { Problem } from '../../core/problem.ts'
import { quoted } from '../../core/shell-word.ts'
import { isServer } from '../../store/address.ts'
import { giveName, nameAside } from '../../whole-file.ts'
import { databaseStep } from './database-step.ts'
import { folderStep, ownFolderStep } from './file-steps.ts'
import { type Place, SYSTEM } from './install-places.ts'
import type { Scheduler } from './machine-scheduler.ts'
import { idsOf, run } from './run-installed.ts'
import { haveSameContent } from './same-content.ts'
import { readableBy, type Settings, settingsStep } from './settings.ts'
import type { Step } from './step.ts'
import { jobSteps } from './systemd-and-cron-steps.ts'

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
