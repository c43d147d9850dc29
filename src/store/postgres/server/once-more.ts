// A write that lost a race for something unique.

import { isTaken } from './errors.ts'

/**
 * Repeats a write, once, when somebody else has just added the row that it would add: this time its decision sees that
 * row.
 */
export async function onceMore<T>(write: () => Promise<T>): Promise<T> {
  try {
    return await write()
  } catch (error) {
    if (!isTaken(error)) throw error
    return write()
  }
}
