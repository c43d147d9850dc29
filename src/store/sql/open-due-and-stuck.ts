// What counts as open, due, late or stuck of an execution: polls, status, metrics and alarms go by the same rules.

import { DUE_LATE_MS, STUCK_DELIVERIES } from '../../core/alarm-thresholds.ts'
import { LEASE_AHEAD_MAX_MS } from '../../core/lease.ts'

/** Whether an execution `e` still waits for its confirmation. Phrased exactly like the condition of an index. */
export const IS_OPEN = `e.status in ('pending', 'sent')`

/** Whether it was delivered so often without a confirmation that somebody has to look into it. */
export const IS_STUCK = `${IS_OPEN} and e.delivered_count >= ${STUCK_DELIVERIES}`

/**
 * Whether an execution `e` may be handed out at `now` (an SQL expression): it was never delivered, or its lease is
 * over, or ends so late that the clock has been set back since. What a poll asks, status and metrics count by the same
 * rule.
 */
export const unleasedAt = (now: string): string =>
  `(e.lease_expires_at is null or e.lease_expires_at <= ${now} or e.lease_expires_at > ${now} + ${LEASE_AHEAD_MAX_MS})`

/** What time it is for a tenant: `s` is its row of `sandboxes`, if it has one. */
export const OWN_NOW = '(:now + coalesce(s.offset_ms, 0))'
/** Whether it is due by that time, and has been there for too long: the rule for the backlog's finding. */
export const IS_DUE_LATE = `${IS_OPEN} and e.created_at < ${OWN_NOW} - ${DUE_LATE_MS} and ${unleasedAt(OWN_NOW)}`
