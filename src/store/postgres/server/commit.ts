// Committing, so that it is known what was committed: the server can refuse with a success, or go away in the middle.

import { Problem } from '../../../core/problem.ts'
import { isLost } from './errors.ts'
import { type Mark, TIMELINE_SQL } from './gate.ts'
import type { Pool } from './pool.ts'
import { query } from './statement.ts'
import { type Pipeline, pipelineOn } from './transaction.ts'

/** How often, and how long after each other, a server is asked what became of a transaction: some ten seconds in all. */
const ASKED_MAX = 20
const ASK_AGAIN_MS = 50

/** Commits, and throws whatever has failed before it. */
export async function commit(tx: Pipeline): Promise<void> {
  const end = tx.send('commit')
  end.catch(() => {})
  await tx.settled()
  // The server answers a commit of what has failed with ROLLBACK, and not with an error.
  const { command } = await end
  if (command !== 'COMMIT') throw new Error(`a commit was answered with ${command}`)
}

/**
 * Commits a write. Should the connection break meanwhile, another one is asked what became of it: then it counts, or it
 * throws what may be tried again. Throws storage_failed when nobody can tell.
 */
export async function commitWritten(
  tx: Pipeline,
  mark: Mark,
  at: { pool: Pool; server: string },
): Promise<void> {
  try {
    await commit(tx)
  } catch (error) {
    if (!isLost(error) || !(await wasCommitted(mark, at))) throw error
  }
}

type Fate = { timeline: string; status: string | null }
const FATE = query<Fate>(
  `select ${TIMELINE_SQL} as timeline,
     case when :xid::xid8 < pg_snapshot_xmax(pg_current_snapshot()) then pg_xact_status(:xid::xid8) end as status`,
)

async function wasCommitted({ xid, timeline }: Mark, { pool, server }: { pool: Pool; server: string }) {
  for (let asked = 1; asked <= ASKED_MAX; asked++) {
    await new Promise((resolve) => setTimeout(resolve, ASK_AGAIN_MS * asked))
    const fate = await ask(pool, xid).catch(() => undefined)
    // A promoted standby gives the same number to another transaction.
    if (fate && fate.timeline !== timeline) break
    if (fate?.status === 'committed') return true
    if (fate?.status === 'aborted') return false
  }
  throw new OutcomeUnknown(server)
}

/** Nobody can tell whether a transaction was committed: it must not be tried again. */
export class OutcomeUnknown extends Problem {
  constructor(server: string) {
    super(
      'storage_failed',
      `${server} went away in the middle of a commit, and it is not known whether that was recorded: look before it is done again.`,
    )
  }
}

async function ask(pool: Pool, xid: string): Promise<Fate | undefined> {
  const client = await pool.connect()
  try {
    return await pipelineOn(client).get(FATE, { xid })
  } finally {
    client.release()
  }
}
