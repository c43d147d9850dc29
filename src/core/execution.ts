// Executions: their ids and idempotency keys, their delivery under a lease, and which of them may be cancelled.

import { type Price, type Usd, ZERO_USD } from './money.ts'
import type { Environment } from './partner.ts'
import { Problem } from './problem.ts'
import { HOUR_MS, type Instant, MINUTE_MS, plus } from './time.ts'
import { settle, type Window } from './window.ts'

export const EXECUTION_STATUSES = ['pending', 'sent', 'filled', 'partial', 'failed', 'cancelled'] as const
export type ExecutionStatus = (typeof EXECUTION_STATUSES)[number]

/** Why a tranche fired: kept for the operator. The API shows it only where a partner fires a tranche of its sandbox. */
export const TRIGGERS = ['slot_start', 'limit', 'deadline', 'catch_up', 'failsafe', 'clock'] as const
export type Trigger = (typeof TRIGGERS)[number]
/** The trigger of an execution that nothing fired: an operator recorded a purchase that the ledger lacked. */
export const RECORDED = 'recorded'

/** The evidence for a tranche: what the engine saw, and what it compared that with. */
export type Firing = {
  trigger: Trigger
  slot: number
  units: number
  price: Price | null
  reference: Price | null
  reservationPrice: Price | null
}

export type Tranche = Firing & { amount: Usd }

export type Execution = {
  executionId: ExecutionId
  planId: number
  windowId: number
  partnerUserId: string
  partnerPlanId: string
  windowStart: Instant
  trancheIndex: number
  amount: Usd
  firing: Omit<Firing, 'trigger'> & { trigger: Trigger | typeof RECORDED }
  createdAt: Instant
  deliveredCount: number
  leaseExpiresAt: Instant | null
  status: ExecutionStatus
  /** When a plan cancel, a user disable or an operator ended it; null where the partner reported "cancelled". */
  cancelledAt: Instant | null
  cancelReason: string | null
}

export const isOpen = (execution: Execution): boolean =>
  execution.status === 'pending' || execution.status === 'sent'

// Execution ids: a UUIDv7 (RFC 9562) as 32 hex digits after `exec_`, each above the one before.

export type ExecutionId = string & { readonly id: 'execution' }

/** Whether an id has the form of ours. After a restore, an unknown one may be of a lost execution. */
export const isExecutionId = (id: string): id is ExecutionId =>
  /^exec_[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}$/.test(id)

const PREFIX = 'exec_'
const RANDOM_BITS = 74n
const RANDOM_MAX = (1n << RANDOM_BITS) - 1n

/**
 * The next execution id after `last`, the highest one so far. Ids rise strictly in creation order, whatever the
 * clock does: within a millisecond, and after a step backwards, the time part of the previous id stays and its random
 * part is counted up (RFC 9562, 6.2, method 2).
 * @param entropy at least ten random bytes
 */
export function nextExecutionId(last: ExecutionId | null, now: Instant, entropy: Uint8Array): ExecutionId {
  const random = fromBytes(entropy) & RANDOM_MAX
  const previous = last === null ? null : takeApart(last)
  if (previous === null || BigInt(now) > previous.ms) return assemble(BigInt(now), random >> 1n)
  // A step of up to 2^32 keeps neighbours unguessable, and half the space still leaves room for 2^41 ids per
  // millisecond.
  const counted = previous.random + 1n + (random & 0xffff_ffffn)
  return counted <= RANDOM_MAX ? assemble(previous.ms, counted) : assemble(previous.ms + 1n, random >> 1n)
}

function assemble(ms: bigint, random: bigint): ExecutionId {
  const high = random >> 62n
  const low = random & ((1n << 62n) - 1n)
  const value = (ms << 80n) | (7n << 76n) | (high << 64n) | (2n << 62n) | low
  return (PREFIX + value.toString(16).padStart(32, '0')) as ExecutionId
}

function takeApart(id: ExecutionId): { ms: bigint; random: bigint } {
  const value = BigInt(`0x${id.slice(PREFIX.length)}`)
  const high = (value >> 64n) & 0xfffn
  return { ms: value >> 80n, random: (high << 62n) | (value & ((1n << 62n) - 1n)) }
}

const fromBytes = (bytes: Uint8Array): bigint => BigInt(`0x${bytes.toHex()}`)

// The key by which a partner tells one purchase from another. If it ever changed, a partner could buy twice.

/** The same in every delivery, and unique within its environment; the other one may have an equal key. */
export const idempotencyKey = (
  execution: Pick<Execution, 'partnerPlanId' | 'windowStart' | 'trancheIndex'>,
  formatStart: (at: Instant) => string,
): string => `${execution.partnerPlanId}:${formatStart(execution.windowStart)}:${execution.trancheIndex}`

type KeyParts = { windowStart: string; trancheIndex: number }

/** Reads a key of a plan, with or without the environment that orders put in front; null for any other text. */
export function keyParts(
  key: string,
  { environment, partnerPlanId }: { environment: Environment; partnerPlanId: string },
): KeyParts | null {
  const plan = [`${environment}:${partnerPlanId}:`, `${partnerPlanId}:`].find((head) => key.startsWith(head))
  const [, windowStart, index] = /^([^:]+:\d\d:[^:]+):(0|[1-9]\d{0,5})$/.exec(key.slice(plan?.length)) ?? []
  if (plan === undefined || windowStart === undefined) return null
  return { windowStart, trancheIndex: Number(index) }
}

// Delivery under a lease, the time for which an execution belongs to the poll that got it.

export const LEASE_MS = 5 * MINUTE_MS
export const DUE_PAGE_MAX = 500
/** A lease that ends later than this began under a clock that was set back since, and counts as ended. */
export const LEASE_AHEAD_MAX_MS = HOUR_MS

/** Leases an execution to the poll that delivers it, and counts the delivery. */
export function deliver(execution: Execution, now: Instant): Execution {
  return {
    ...execution,
    status: 'sent',
    deliveredCount: execution.deliveredCount + 1,
    leaseExpiresAt: plus(now, LEASE_MS),
  }
}

type Cancelled = { execution: Execution; window: Window }

/** Ends an open execution because its plan was cancelled or its user disabled. The whole reservation goes back. */
export function cancel(execution: Execution, window: Window, now: Instant): Cancelled {
  return {
    execution: { ...execution, status: 'cancelled', cancelledAt: now },
    window: settle(window, execution.amount, ZERO_USD),
  }
}

/** Ends an open execution that nobody will ever confirm. Throws execution_recorded, execution_cancelled. */
export function cancelByHand(
  { execution, window, trade }: Cancelled & { trade: { report: { status: ExecutionStatus } } | null },
  reason: string,
  now: Instant,
): Cancelled {
  if (trade) {
    throw new Problem(
      'execution_recorded',
      `Execution ${execution.executionId} is recorded as ${trade.report.status}: a recorded outcome cannot be cancelled.`,
    )
  }
  if (!isOpen(execution))
    throw new Problem('execution_cancelled', `Execution ${execution.executionId} is cancelled already.`)
  const ended = cancel(execution, window, now)
  return { ...ended, execution: { ...ended.execution, cancelReason: reason } }
}
