// The thresholds above which a person should look: the same for `check`, `status`, the metrics and their alert rules.

import { DAY_MS, MINUTE_MS } from './instant.ts'

/** A partner polls every minute: an instruction that has been due for this long is one that nobody fetches. */
export const DUE_LATE_MS = 15 * MINUTE_MS

/** Every plan fires about once a day, so a partner with plans has something to fetch at least as often. */
export const SILENT_MAX_MS = DAY_MS

/** Fewer orders that failed may be the fault of one user. */
export const FAILED_ORDERS_MIN = 3

/** A feed gives a price at every pass. A newest price older than this comes from a feed nobody asks any more. */
export const PRICE_OLD_MS = DAY_MS

/** How far back a partner's orders are counted. */
export const ORDERS_SEEN_MS = DAY_MS

/** Below this share of the disk, or below what the database grew by in a day, room is short. */
export const DISK_FREE_MIN = 0.1

/** A feed that none of the last so many passes asked is no longer in use. */
export const FEED_PASSES_SEEN = 10

/** Four times the size at which the write-ahead log is folded into the database. */
export const WAL_LARGE_BYTES = 64 * 2 ** 20

/** Windows that ended with money unspent are shown for this long. */
export const UNSPENT_DAYS = 7

/**
 * A fill that was made this long before its execution was created cannot be of it, allowing for clocks that differ. The
 * index `trades_executed_before` (sql/0019_executed_before.sql, sql/postgres/0008_executed_before.sql) has the same
 * number: another one needs a migration.
 */
export const EARLY_FILL_MS = 10 * MINUTE_MS
/** Fills that were made too early are shown for this long, and at most so many of them. */
export const EARLY_FILL_DAYS = 30
export const EARLY_FILLS_MAX = 20

/** A key that ends this soon is warned about, unless its partner has switched to one that lasts longer. */
export const KEY_ENDS_WITHIN_DAYS = 14

/**
 * An execution delivered this often without a confirmation is stuck: its partner polls but never answers. The indexes
 * `executions_stuck` (sql/0011_findings.sql, sql/postgres/0001_start.sql) have the same number: another one needs a
 * migration.
 */
export const STUCK_DELIVERIES = 5

/** Failures in a row of a webhook after which an operator is warned: before it is paused. */
export const FAILURES_TO_WARN = 5
