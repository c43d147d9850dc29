// Erases a user's personal data from its row: what a server has on its disk is not the store's to overwrite.

import { Problem } from '../../../core/problem.ts'
import { erasedParams, type UserRow, userOf } from '../../rows/user.ts'
import { ERASE_USER, SELECT_USER } from '../../sql/accounts.ts'
import { ofTenant } from '../../transaction.ts'
import type { UserStore } from '../../users.ts'
import type { Connection } from '../server/connection.ts'
import { query } from '../server/statement.ts'
import { addAudit } from './audit.ts'

const LOCK = query<UserRow>(`${SELECT_USER} for no key update`)
const ERASE = query(ERASE_USER)
const ELSEWHERE = query<{ one: bigint }>(
  'select 1 as one from users where email = :text or strpos(partner_user_id, :text) > 0 limit 1',
)

/**
 * From the commit on, no query finds the e-mail. The bytes stay for a while: in the dead row until autovacuum frees its
 * place and another row takes it, in the log until its segment is reused, on every standby and in every archive. A
 * vacuum here would not help: it frees the place without overwriting it, and the log would keep the text anyway. So
 * `remains` is never 'nowhere'.
 */
export function createEraser(connection: Connection): UserStore['eraseUser'] {
  return async (tenant, partnerUserId, entry) => {
    const scope = { tenant: tenant.tenantId, partner_user_id: partnerUserId }
    const { before, now } = await connection.write(async (tx) => {
      const [row, { real }] = await Promise.all([tx.get(LOCK, scope), tx.times])
      if (!row) throw new Problem('user_not_found', `User ${partnerUserId} not found.`)
      await Promise.all([tx.run(ERASE, erasedParams(row, real)), addAudit(tx, entry, real)])
      return { before: userOf(row), now: real }
    }, ofTenant(tenant))
    const text = before.email
    const elsewhere = text !== null && (await connection.look((tx) => tx.get(ELSEWHERE, { text })))
    const user = { ...before, email: null, authProvider: null, updatedAt: now }
    return { user, erasedAt: now, remains: elsewhere ? 'other_row' : 'server' }
  }
}
