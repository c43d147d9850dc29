// What a command that takes long waits for: said once, to whoever watches it.

import { visible } from '../core/visible.ts'
import type { Database } from './database.ts'

/** Long enough for any write that is not held up. */
const LONG_MS = 5_000

/** Runs `work`. Tells what the database waits for, if anything, once that has taken long. */
export async function tellingOfWaits<T>(
  { waitsFor }: Pick<Database, 'waitsFor'>,
  tell: (what: string) => void,
  work: () => Promise<T>,
): Promise<T> {
  let hasEnded = false
  const look = async (): Promise<void> => {
    // Whoever cannot find out says nothing: the command itself says how it ends.
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
