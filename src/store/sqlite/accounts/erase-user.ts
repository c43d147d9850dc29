// Erases a user's personal data, from the rows and from the bytes of the file.

import { read } from 'node:fs'
import { promisify } from 'node:util'
import { Problem } from '../../../core/problem.ts'
import { erasedParams, type UserRow, userOf } from '../../rows/user.ts'
import { ERASE_USER, SELECT_USER } from '../../sql/accounts.ts'
import type { UserStore } from '../../users.ts'
import type { Connection, Database } from '../file/connection.ts'
import { busy } from '../file/error-kinds.ts'
import { whenFree } from '../file/wait-for-lock.ts'
import type { AuditLog } from './audit.ts'

/** `held` gives a descriptor of the file that stays open until after the database is closed. */
type Place = { audit: AuditLog; file: string; held: () => number }

export function createEraser({ db, read: look, write }: Connection, place: Place): UserStore['eraseUser'] {
  const sql = {
    find: db.prepare<object, UserRow>(SELECT_USER),
    erase: db.prepare(ERASE_USER),
    elsewhere: db.prepare<object, { one: bigint }>(
      'select 1 as one from users where email = :text or instr(partner_user_id, :text) > 0 limit 1',
    ),
  }
  return async (tenant, partnerUserId, entry) => {
    const scope = { tenant: tenant.tenantId, partner_user_id: partnerUserId }
    const { before, now } = await write((at) => {
      const row = sql.find.get(scope)
      if (!row) throw new Problem('user_not_found', `User ${partnerUserId} not found.`)
      sql.erase.run(erasedParams(row, at))
      place.audit.add(entry, at)
      return { before: userOf(row), now: at }
    })
    const text = before.email
    // Text that another row holds as well stays in the file, however the file is written.
    const elsewhere = text !== null && (await look(() => sql.elsewhere.get({ text }) !== undefined))
    const overwritten = await overwrite(db, place, elsewhere ? null : text)
    const user = { ...before, email: null, authProvider: null, updatedAt: now }
    const remains = elsewhere ? 'other_row' : overwritten ? 'nowhere' : 'log'
    return { user, erasedAt: now, remains }
  }
}

/**
 * Moves the log into the file and empties it. What the update left behind is zeros (secure_delete); if the text is
 * still there, left by a version that did not write zeros, the whole file is rewritten.
 */
async function overwrite(db: Database, { file, held }: Place, text: string | null): Promise<boolean> {
  if (file === ':memory:') return true
  try {
    await emptyLog(db)
    if (text === null || !(await holds(held(), text))) return true
    await whenFree(() => db.exec('vacuum'))
    await emptyLog(db)
    return !(await holds(held(), text))
  } catch (error) {
    // The row is erased all the same; a later checkpoint, or the command again, empties the log.
    if (error instanceof Problem && error.code === 'database_locked') return false
    throw error
  }
}

const emptyLog = (db: Database): Promise<void> =>
  whenFree(() => {
    const [row] = db.pragma('wal_checkpoint(truncate)') as { busy: bigint }[]
    // A reader still needs the log: tried again like any other lock.
    if (row?.busy !== 0n) throw busy()
  })

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
