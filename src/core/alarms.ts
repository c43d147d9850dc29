// From where on a number asks a person to look: one threshold for `check`, `status`, and the alert rules of the guide.

import { MINUTE_MS } from './instant.ts'

/** A partner polls every minute: an instruction that has been due for this long is one that nobody fetches. */
export const DUE_LATE_MS = 15 * MINUTE_MS

/** Four times the size at which the write-ahead log is folded into the database. */
export const WAL_LARGE_BYTES = 64 * 2 ** 20

/** Windows that ended with money unspent are shown for this long. */
export const UNSPENT_DAYS = 7
