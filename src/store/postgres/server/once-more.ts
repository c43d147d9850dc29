// A write that lost a race for something that there is once.

import { isTaken } from './errors.ts'

/** Does a write again, once, when somebody else has just added the row that it would add: now its decision sees it. */
export async function onceMore<T>(write: () => Promise<T>): Promise<T> {
  try {
    return await write()
  } catch (error) {
    if (!isTaken(error)) throw error
    return write()
  }
}
