// A new API key: its secret, which is shown once, and what is kept of it.

import { makeKey, visibleParts } from '../../core/key.ts'
import type { Tenant } from '../../core/partner.ts'
import { keyHash } from '../../http/auth.ts'
import type { NewKey } from '../../store/store.ts'
import type { Cli } from '../context.ts'

export function newKey(
  cli: Pick<Cli, 'machine'>,
  tenant: Tenant,
  label: string | null,
  lifetimeMs: number | null,
): { secret: string; record: NewKey } {
  const secret = makeKey(tenant.environment, cli.machine.random)
  const keyId = `key_${Buffer.from(cli.machine.random(8)).toString('hex')}`
  return {
    secret,
    record: { keyId, tenant, sha256: keyHash(secret), ...visibleParts(secret), label, lifetimeMs },
  }
}
