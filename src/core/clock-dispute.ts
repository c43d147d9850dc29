// The machine's clock against a second witness: whether a pass may act on the time it is told.

import { spellSpan } from './duration-words.ts'
import { formatInstant, type Instant, MINUTE_MS, plus } from './instant.ts'
import { Problem } from './problem.ts'

/** How far a clock and its witness may be apart before neither is believed. */
export const CLOCK_DIFFERENCE_MAX_MS = 10 * MINUTE_MS

/** The time that somebody else tells, and who it is. */
export type Witness = { source: string; at: Instant }
/** `silent`: there is a witness, and this time it told nothing. `none`: nobody was asked. */
export type Testimony = Witness | 'silent' | 'none'

/** A clock and a witness that contradict each other. */
export type Dispute = { clockAt: Instant; witness: Witness }

export const agree = (clock: Instant, told: Instant): boolean =>
  Math.abs(clock - told) <= CLOCK_DIFFERENCE_MAX_MS

/**
 * Whether the clock is disputed, by what a witness tells now and by the dispute that stands. A silent witness neither
 * starts a dispute nor ends one, unless the clock was set in the meantime; who asks nobody ends it.
 */
export function judgeClock(clock: Instant, told: Testimony, standing: Dispute | null): Dispute | null {
  if (told === 'none') return null
  if (told !== 'silent') return agree(clock, told.at) ? null : { clockAt: clock, witness: told }
  if (standing === null || wasSet(standing, clock)) return null
  const { source, at } = standing.witness
  return { clockAt: clock, witness: { source, at: plus(at, clock - standing.clockAt) } }
}

/** A clock that was ahead has gone back since; one that was behind has caught up with the witness. */
const wasSet = ({ clockAt, witness }: Dispute, clock: Instant): boolean =>
  clockAt > witness.at ? clock < clockAt : clock >= plus(witness.at, -CLOCK_DIFFERENCE_MAX_MS)

/** Both times, for people. */
export const inWords = ({ clockAt, witness }: Dispute): string =>
  `this machine shows ${formatInstant(clockAt)} and ${witness.source} ${formatInstant(witness.at)}, ` +
  `${spellSpan(Math.abs(clockAt - witness.at))} ${clockAt > witness.at ? 'earlier' : 'later'}`

export const clockDisputed = (dispute: Dispute): Problem =>
  new Problem(
    'clock_disputed',
    `The clock is in doubt: ${inWords(dispute)}. Nothing fires and no window rolls until they agree.`,
  )
