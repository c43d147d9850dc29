// The settings of all jobs: which of them init writes into tranche.env, which lines it leaves, and who may read it.

import { quoted } from '../../core/shell-word.ts'
import { readDeployed } from '../../resources.ts'
import { isServer } from '../../store/address.ts'
import { relocated } from './deployed-texts.ts'
import { fileStep, readOwn } from './file-steps.ts'
import { formerDatabase, refuseUnsealed } from './former-database.ts'
import type { Place } from './install-places.ts'
import { type Ids, idsOf } from './run-installed.ts'
import type { Step } from './step.ts'

export type Settings = { priceFeed?: string; ping?: URL }

export function settingsStep(place: Place, settings: Settings): Step {
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

/** Root's, so that the jobs cannot change their own settings, and theirs to read. */
export function readableBy(place: Place): Ids | null {
  const ids = idsOf(place)
  return ids && place.user !== null ? { uid: 0, gid: ids.gid } : ids
}
