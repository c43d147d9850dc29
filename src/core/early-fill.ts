// What is said of a fill that was made before its execution was there. It is probably of another order, such as one of
// the sandbox that the partner's venue knows under an equal key.

import { spellSpan } from './duration-words.ts'
import { formatInstant } from './instant.ts'
import { tenantName } from './tenant-words.ts'
import type { EarlyFillSeen } from './vitals.ts'

/** As a finding: its code, whose it is, the words and the next command. */
export function fillEarly({ tenant, executionId, executedAt, createdAt }: EarlyFillSeen) {
  return {
    kind: 'fill_early' as const,
    tenant,
    subject: `${tenantName(tenant)} execution ${executionId}`,
    message:
      `its fill is reported as made ${formatInstant(executedAt)}, ${spellSpan(createdAt - executedAt)} ` +
      'before this execution was created, so it may be of another order: ask the partner for its order, and adjust ' +
      'the trade if nothing was bought for it',
    next: ['tranche', 'execution', 'show', executionId],
  }
}
