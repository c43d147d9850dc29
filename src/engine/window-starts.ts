// Which windows a backtest replays: where the first one starts, and how far apart they are.

import { DAY_MS, HOUR_MS } from '../core/time.ts'

export const WARM_UP_DAYS = 14
/** So long after the first price of a history the first window starts. */
export const WARM_UP_MS = WARM_UP_DAYS * DAY_MS

export const WINDOW_EVERY_HOURS = 7
/** Windows overlap: one starts this long after the other. */
export const WINDOW_EVERY_MS = WINDOW_EVERY_HOURS * HOUR_MS
