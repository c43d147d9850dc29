// Locks that a session holds, on a connection of its own: they end with the process, however it ends.

import type { Connection } from './connection.ts'
import { explained } from './error-words.ts'
import { pipelineOn } from './pipeline.ts'
import { query } from './statement.ts'
import { PATIENCE } from './timeouts.ts'

const TRY = query<{ taken: boolean }>('select pg_try_advisory_lock(:which::int, 0) as taken')
const UNLOCK = query('select pg_advisory_unlock(:which::int, 0)')

/** Takes an exclusive lock. Returns a function that gives it back, or null while somebody else holds it. */
export async function takeSessionLock(
  { session, server }: Connection,
  which: number,
): Promise<(() => Promise<void>) | null> {
  const { client, giveBack } = await session()
  try {
    const tx = pipelineOn(client, PATIENCE.work)
    if (!(await tx.get(TRY, { which }))?.taken) {
      giveBack()
      return null
    }
    let given: Promise<void> | undefined
    return () => {
      given ??= tx.run(UNLOCK, { which }).then(
        () => giveBack(),
        // The end of its session ends the lock as well.
        () => giveBack(true),
      )
      return given
    }
  } catch (error) {
    giveBack(true)
    throw explained(error, server)
  }
}
