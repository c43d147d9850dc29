// Executions: what they are.

import type { ExecutionId } from './execution-id.ts'
import type { Instant } from './instant.ts'
import type { Price, Usd } from './money.ts'

export const EXECUTION_STATUSES = ['pending', 'sent', 'filled', 'partial', 'failed', 'cancelled'] as const
export type ExecutionStatus = (typeof EXECUTION_STATUSES)[number]

/** Why a tranche fired: kept for the operator, never shown in the API. */
export const TRIGGERS = ['slot_start', 'limit', 'deadline', 'catch_up', 'failsafe', 'clock'] as const
export type Trigger = (typeof TRIGGERS)[number]

/** The evidence behind a tranche: what the engine saw and what it compared it with. */
export type Firing = {
  trigger: Trigger
  slot: number
  units: number
  price: Price | null
  reference: Price | null
  reservationPrice: Price | null
}

/** A tranche the engine decided to fire. */
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
  firing: Firing
  createdAt: Instant
  deliveredCount: number
  leaseExpiresAt: Instant | null
  status: ExecutionStatus
  /**
   * Set when a plan cancel, a user disable or an operator ended it; a partner's own "cancelled" report leaves it null.
   */
  cancelledAt: Instant | null
  /** The operator's words, when it was one. */
  cancelReason: string | null
}

export const isOpen = (execution: Execution): boolean =>
  execution.status === 'pending' || execution.status === 'sent'
