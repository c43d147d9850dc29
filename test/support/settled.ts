// Waiting for a number that somebody else changes: of connections, say, whose other side takes its time.

import { setTimeout as wait } from 'node:timers/promises'

const LOOK_MS = 250
const SAME_LOOKS = 4

/** Resolves when the number has stayed the same for a second. */
export async function settled(count: () => number): Promise<void> {
  let before = -1
  for (let same = 0; same < SAME_LOOKS; same = count() === before ? same + 1 : 0) {
    before = count()
    await wait(LOOK_MS)
  }
}
