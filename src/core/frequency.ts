// How often a plan buys, and how long its windows are.

import { DAY_MS } from './instant.ts'

export const FREQUENCIES = ['daily', 'weekly', 'bi-weekly'] as const
export type Frequency = (typeof FREQUENCIES)[number]

export const WINDOW_MS: Record<Frequency, number> = {
  daily: DAY_MS,
  weekly: 7 * DAY_MS,
  'bi-weekly': 14 * DAY_MS,
}
