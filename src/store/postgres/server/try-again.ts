// Trying a transaction again: when others made it impossible, when its server went away, when it lost a race.

import { isLost, isSilence, isTaken, isTransient } from './error-kinds.ts'
import { explained } from './error-words.ts'

/** How often a transaction is tried in all, when others made it impossible or its server went away. */
const TRIES_MAX = 3
const PAUSE_MS = 50

/**
 * Does it again while nothing is known to have been done and trying costs little. Explains the error of the last try.
 */
export async function tryAgain<T>(server: string, work: () => Promise<T>): Promise<T> {
  for (let tried = 1; ; tried++) {
    try {
      return await work()
    } catch (error) {
      if (tried === TRIES_MAX || !mayTryAgain(error)) throw explained(error, server)
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS * tried))
    }
  }
}

const mayTryAgain = (error: unknown): boolean => isTransient(error) || (isLost(error) && !isSilence(error))

/**
 * Repeats a write, once, when somebody else has just added the row that it would add: its decision then sees that row.
 */
export async function onceMore<T>(write: () => Promise<T>): Promise<T> {
  try {
    return await write()
  } catch (error) {
    if (!isTaken(error)) throw error
    return write()
  }
}
