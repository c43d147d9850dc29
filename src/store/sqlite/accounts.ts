// Partners and users on a file, where it differs from a server: how a partner's schedules are updated, and how the
// bytes of an erased e-mail are removed.

import { read } from 'node:fs'
import { promisify } from 'node:util'
import { Problem } from '../../core/problem.ts'
import type { Following } from '../shared/accounts.ts'
import { AWAKE, leastInstructionOf } from '../sql/fragments.ts'
import { query } from '../statement.ts'
import type { Remains } from '../store.ts'
import type { Connection, Database } from './file/connection.ts'
import { busy } from './file/errors.ts'
import { syncLog } from './file/files.ts'
import { whenFree } from './file/waiting.ts'

/** The plans of a partner, in both of its environments. */
const PLANS_OF_PARTNER =
  '(select plan_id from plans join tenants using (tenant_id) where partner_slug = :slug)'
const WAKE = query(
  `update schedules set awake = not awake where plan_id in ${PLANS_OF_PARTNER} and awake <> ${AWAKE}`,
)
const FLOOR = leastInstructionOf(':min_tranche', 'budget')
const SET_FLOOR = query(
  `update schedules set floor = ${FLOOR} where plan_id in ${PLANS_OF_PARTNER} and floor <> ${FLOOR}`,
)

/** All schedules at once, and only those that differ. */
export const FOLLOWING: Following = {
  begin: (tx, { partnerSlug: slug, status, held, minTranche }, before) =>
    tx.together(
      tx.when(status !== before.status || held !== before.held, () => tx.run(WAKE, { slug })),
      tx.when(minTranche !== before.minTranche, () => tx.run(SET_FLOOR, { slug, min_tranche: minTranche })),
    ),
  finish: async () => {},
}

/** `held` gives a descriptor of the file that stays open until after the database is closed. */
type Place = { file: string; held: () => number }

/**
 * Moves the log into the file and empties it. The update left zeros behind (secure_delete); if the text is still there,
 * left by a version that did not write zeros, the whole file is rewritten.
 */
export const createOverwriter =
  ({ db }: Connection, { file, held }: Place) =>
  async (text: string | null): Promise<Remains> => {
    try {
      await emptyLog(db, file)
      if (text === null || !(await holds(held(), text))) return 'nowhere'
      await whenFree(() => db.exec('vacuum'))
      await emptyLog(db, file)
      return (await holds(held(), text)) ? 'log' : 'nowhere'
    } catch (error) {
      // The row is erased all the same; a later checkpoint, or the command run again, empties the log.
      if (error instanceof Problem && error.code === 'database_locked') return 'log'
      throw error
    }
  }

async function emptyLog(db: Database, file: string): Promise<void> {
  await whenFree(() => {
    const [row] = db.pragma('wal_checkpoint(truncate)') as { busy: bigint }[]
    // A reader still needs the log: the checkpoint is tried again, as with any other lock.
    if (row?.busy !== 0n) throw busy()
  })
  // SQLite does not wait for this, and a power cut would bring the log back.
  syncLog(file)
}

/** Whether an open file contains a text; read in pieces that overlap by its length. */
async function holds(descriptor: number, text: string): Promise<boolean> {
  const sought = Buffer.from(text, 'utf8')
  const chunk = Buffer.alloc(CHUNK_BYTES)
  let tail = Buffer.alloc(0)
  for (let at = 0; ; ) {
    const { bytesRead } = await readAt(descriptor, chunk, 0, chunk.length, at)
    if (bytesRead === 0) return false
    const piece = Buffer.concat([tail, chunk.subarray(0, bytesRead)])
    if (piece.includes(sought)) return true
    tail = piece.subarray(Math.max(0, piece.length - sought.length + 1))
    at += bytesRead
  }
}

const CHUNK_BYTES = 2 ** 20
/** A stream would close the descriptor when it is left. */
const readAt = promisify(read)
