// Confirmations: those of one tenant wait in one lane of this process, and share a transaction.

import type { Confirmation, ExecutionSeen } from '../../../core/confirmation.ts'
import type { Instant } from '../../../core/instant.ts'
import type { Caller, Tenant } from '../../../core/partner.ts'
import { callOf } from '../../transaction.ts'
import type { Connection } from '../server/connection.ts'
import { isRowsFault, isTaken } from '../server/error-kinds.ts'
import type { Entered } from '../server/month-gate.ts'
import { onceMore } from '../server/try-again.ts'
import { createLane, type Outcome } from './commit-lane.ts'
import type { Asked, ConfirmationBatch } from './confirmation-batch.ts'
import { readBatch, writeBatch } from './confirmation-rows.ts'
import { lockExecutions } from './row-locks.ts'

type Decide = (seen: ExecutionSeen, now: Instant) => Confirmation
type Job = { ids: Asked; decide: Decide; keyId: string | undefined }
type Confirmed = Outcome<Confirmation>

export function createConfirm(connection: Connection) {
  const lanes = new Map<number, (job: Job) => Promise<Confirmation>>()

  const together = ({ tenantId }: Tenant, jobs: readonly Job[]): Promise<Confirmed[]> => {
    const keys = [...new Set(jobs.flatMap(({ keyId }) => keyId ?? []))]
    return connection.write(
      async (tx) => {
        const asked = jobs.map(({ ids }) => ids)
        const [times, , batch] = await Promise.all([
          tx.times,
          lockExecutions(
            tx,
            tenantId,
            asked.map(({ executionId }) => executionId),
          ),
          readBatch(tx, tenantId, asked),
        ])
        const now = times.of(tenantId)
        const outcomes = jobs.map((job) => attempt(job, batch, { times, now }))
        tx.unwaited(writeBatch(tx, tenantId, batch, now))
        return outcomes
      },
      // What was bought is recorded whatever else stands still.
      { ...callOf({ tenantId }), keys, stopsWhenLost: false },
    )
  }

  /** On its own: decided again, once, if another connection has recorded its order meanwhile. */
  const alone = (tenant: Tenant, job: Job): Promise<Confirmed> =>
    onceMore(() => together(tenant, [job])).then(
      ([outcome]) => outcome as Confirmed,
      (error) => ({ ok: false, error }),
    )

  async function confirmAll(tenant: Tenant, jobs: readonly Job[]): Promise<Confirmed[]> {
    try {
      return await together(tenant, jobs)
    } catch (error) {
      if (!isRowsFault(error) || (jobs.length === 1 && !isTaken(error))) throw error
    }
    // It is unknown whose row it was, and the others must not fail with it.
    const outcomes: Confirmed[] = []
    for (const job of jobs) outcomes.push(await alone(tenant, job))
    return outcomes
  }

  return (tenant: Caller, ids: Asked, decide: Decide): Promise<Confirmation> => {
    const { tenantId, keyId } = tenant
    const lane = lanes.get(tenantId) ?? createLane((jobs: readonly Job[]) => confirmAll(tenant, jobs))
    lanes.set(tenantId, lane)
    return lane({ ids, decide, keyId })
  }
}

/** A refusal leaves the batch with its own Problem, and changes nothing for the others. */
function attempt(
  { ids, decide, keyId }: Job,
  batch: ConfirmationBatch,
  { times, now }: { times: Entered; now: Instant },
): Confirmed {
  try {
    if (keyId !== undefined) times.admit(keyId)
    const value = decide(batch.seen(ids), now)
    batch.take(value, now)
    return { ok: true, value }
  } catch (error) {
    return { ok: false, error }
  }
}
