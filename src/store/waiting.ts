// Tells the person who watches a slow command, once, what it is waiting for.

import { visible } from '../core/visible-text.ts'
import type { Database } from './database.ts'

/** Long enough for any write that is not held up. */
const LONG_MS = 5_000

/** Runs `work`. If that takes long, tells what the database is waiting for, if anything. */
export async function tellingOfWaits<T>(
  { waitsFor }: Pick<Database, 'waitsFor'>,
  tell: (what: string) => void,
  work: () => Promise<T>,
): Promise<T> {
  let hasEnded = false
  const look = async (): Promise<void> => {
    // If that cannot be found out, nothing is said: the command itself says how it ends.
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
