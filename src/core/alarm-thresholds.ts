// From where on a number asks a person to look: one threshold for `check`, `status`, the metrics and their alert rules.

import { DAY_MS, MINUTE_MS } from './instant.ts'

/** A partner polls every minute: an instruction that has been due for this long is one that nobody fetches. */
export const DUE_LATE_MS = 15 * MINUTE_MS

/** Every plan fires about once a day, so a partner with plans has something to fetch at least as often. */
export const SILENT_MAX_MS = DAY_MS

/** Fewer orders that failed may be the fault of one user. */
export const FAILED_ORDERS_MIN = 3

/** A feed gives a price at every tick: so old a newest price is of a feed that nobody asks any more. */
export const PRICE_OLD_MS = DAY_MS

/** What is counted of a partner's orders. */
export const ORDERS_SEEN_MS = DAY_MS

/** Below this share of the disk, or below what the database grew by in a day, room is short. */
export const DISK_FREE_MIN = 0.1

/** A feed that none of so many passes has asked is in use no more. */
export const FEED_PASSES_SEEN = 10

/** Four times the size at which the write-ahead log is folded into the database. */
export const WAL_LARGE_BYTES = 64 * 2 ** 20

/** Windows that ended with money unspent are shown for this long. */
export const UNSPENT_DAYS = 7

/** A key that ends this soon is warned about, unless its partner has switched to one that lasts longer. */
export const KEY_ENDS_WITHIN_DAYS = 14
