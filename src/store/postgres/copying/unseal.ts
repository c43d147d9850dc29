// Reads the seal of a database on a server from outside, and takes it off.

import type { Client } from 'pg'
import type { Instant } from '../../../core/instant.ts'
import { Problem } from '../../../core/problem.ts'
import { shownAddress } from '../../address.ts'
import type { AuditEntry } from '../../audit.ts'
import type { Seal } from '../../copying/seal-words.ts'
import { commitAlone } from '../server/commit.ts'
import { explaining } from '../server/error-words.ts'
import { isEmpty, migrationStates } from '../server/migrate.ts'
import { openAlone } from '../server/pool.ts'
import { takeCopyLock } from './copy-lock.ts'
import { auditThroughSeal, breakSeal, sealOf } from './seal.ts'

/** Null also where there is nothing of ours. */
export const seenSeal = (url: string): Promise<Seal | null> =>
  onServer(url, async (client) => ((await isEmpty(client)) ? null : sealOf(client)))

/** Throws usage for a database without a seal, database_in_use while it is copied, schema_newer, storage_failed. */
export const unseal = (
  url: string,
  { clock, audit }: { clock: (() => Instant) | null; audit: (seal: Seal) => AuditEntry },
): Promise<Seal> =>
  onServer(url, async (client) => {
    await migrationStates(client)
    await takeCopyLock(client, { server: shownAddress(url), alone: true })
    await client.query('begin')
    const seal = (await isEmpty(client)) ? null : await sealOf(client)
    if (!seal) throw new Problem('usage', `${shownAddress(url)} is not sealed.`)
    await breakSeal(client)
    await auditThroughSeal(client, audit(seal), clock)
    await commitAlone(client)
    return seal
  })

async function onServer<T>(url: string, work: (client: Client) => Promise<T>): Promise<T> {
  let client: Client | undefined
  try {
    return await explaining(shownAddress(url), async () => {
      client = await openAlone(url)
      return work(client)
    })
  } finally {
    await client?.end().catch(() => {})
  }
}
