// Wiping a test environment, while nobody else writes for it.

import type { Instant } from '../../../core/instant.ts'
import type { Tenant } from '../../../core/partner.ts'
import { notToWipe } from '../../../core/sandbox-limits.ts'
import { type Wiped, wipedOf } from '../../sandboxes.ts'
import { KEEP_USED_STARTS } from '../../sql/sandboxes.ts'
import { WIPED } from '../../sql/tables-a-reset-empties.ts'
import type { Tx } from '../server/pipeline.ts'
import { query } from '../server/statement.ts'

const MARK = query('update sandboxes set resetting = :resetting where tenant_id = :tenant')
const KEEP = KEEP_USED_STARTS.map((statement) => query(statement))
const WIPE = WIPED.map(([table, rows]) => ({ table, all: query(`delete from ${table} where ${rows}`) }))

/**
 * In a transaction that has the tenant to itself. Records that are otherwise kept forever can be deleted while the
 * tenant is marked.
 */
export async function wipe(tx: Tx, { tenantId: tenant }: Tenant, real: Instant): Promise<Wiped> {
  if ((await tx.run(MARK, { tenant, resetting: 1 })) !== 1) {
    throw notToWipe()
  }
  for (const statement of KEEP) await tx.run(statement, { tenant, real })
  const counts = await Promise.all(
    WIPE.map(async ({ table, all }) => [table, await tx.run(all, { tenant })] as const),
  )
  await tx.run(MARK, { tenant, resetting: 0 })
  const gone = new Map(counts)
  return wipedOf((table) => gone.get(table) ?? 0)
}
