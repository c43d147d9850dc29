// Telling the user of a slow command, once, what it is waiting for.

import { visible } from '../core/text.ts'
import type { Database } from './database.ts'

/** Longer than any write takes that does not wait. */
const LONG_MS = 5_000

/** Runs `work`. If that takes long, reports what the database is waiting for, if anything. */
export async function tellingOfWaits<T>(
  { waitsFor }: Pick<Database, 'waitsFor'>,
  tell: (what: string) => void,
  work: () => Promise<T>,
): Promise<T> {
  let hasEnded = false
  const look = async (): Promise<void> => {
    // If that cannot be found out, nothing is reported: the command reports how it ends.
    const what = await waitsFor().catch(() => null)
    if (hasEnded) return
    if (what === null) timer = setTimeout(look, LONG_MS)
    else tell(visible(what))
  }
  let timer = setTimeout(look, LONG_MS)
  try {
    return await work()
  } finally {
    hasEnded = true
    clearTimeout(timer)
  }
}
