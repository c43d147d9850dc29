// How often the failsafe tries again with money that comes back.

import { MINUTE_MS } from './instant.ts'

/** The most extra tranches a window may fire for money that comes back in its failsafe span. */
export const EXTRA_TRANCHES_MAX = 3
/** How far apart they are, at least. */
export const EXTRA_SPACING_MS = 5 * MINUTE_MS
