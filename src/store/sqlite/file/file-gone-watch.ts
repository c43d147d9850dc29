// Whether the open files are still what their names lead to: a database that was removed or replaced takes every write
// and loses it.

import { Problem } from '../../../core/problem.ts'
import { identityOf, indexFile, walFile } from './own-files.ts'

/** How long a read trusts the last look: a read loses nothing, so it need not look itself. */
const LOOK_MS = 100

export type NameWatch = {
  /** Looks. Once it has thrown database_gone, it always does: in between, others may have written elsewhere. */
  look: () => void
  /** The same, unless the last look was just now. */
  lookNowAndThen: () => void
}

type Watched = { name: string; identity: string }

export const UNWATCHED: NameWatch = { look: () => {}, lookNowAndThen: () => {} }

/**
 * Watches the database that was just opened under the name `file`. What lies beside it is watched from the call of
 * `besideToo`: the log and its index are there once the log was read, and stay for as long as the database is open.
 */
export function watchName(file: string): NameWatch & { besideToo: () => void } {
  if (file === ':memory:') return { ...UNWATCHED, besideToo: () => {} }
  const beside = [walFile(file), indexFile(file)]
  const watched = identified([file])
  let gone: Problem | null = null
  let lookedAt = Number.NEGATIVE_INFINITY

  function look(): void {
    const lost = gone ? undefined : watched.find(({ name, identity }) => identityOf(name) !== identity)
    if (lost) gone = goneFrom(lost.name)
    if (gone) throw gone
    lookedAt = performance.now()
  }

  return {
    look,
    lookNowAndThen() {
      if (gone || performance.now() - lookedAt >= LOOK_MS) look()
    },
    besideToo: () => void watched.push(...identified(beside)),
  }
}

const identified = (names: readonly string[]): Watched[] =>
  names.flatMap((name) => {
    const identity = identityOf(name)
    return identity === null ? [] : [{ name, identity }]
  })

const goneFrom = (name: string): Problem =>
  new Problem(
    'database_gone',
    `${name} was removed or replaced while it was open, so nothing more is stored: ` +
      'see "When the database is gone" in `tranche docs operations` before you stop this process.',
  )
