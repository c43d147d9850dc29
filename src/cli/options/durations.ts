// Readers of option values that say how long something lasts: 60s, 15m, 24h, 90d.

import { InvalidArgumentError } from 'commander'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../core/instant.ts'

const DURATION_UNIT_MS: Record<string, number> = { s: SECOND_MS, m: MINUTE_MS, h: HOUR_MS, d: DAY_MS }

/** Reads a time of one second to `daysMax` days, in ms. */
const timeUpTo =
  (daysMax: number) =>
  (text: string): number => {
    const parts = /^(\d{1,9})([smhd])$/.exec(text)
    const ms = Number(parts?.[1]) * (DURATION_UNIT_MS[parts?.[2] ?? ''] ?? Number.NaN)
    if (SECOND_MS <= ms && ms <= daysMax * DAY_MS) return ms
    throw new InvalidArgumentError(
      `Give a whole number and a unit, such as 60s, 15m or 24h, from 1s to ${daysMax}d.`,
    )
  }

/** A hundred years: how long a key lives, how far a sandbox goes. */
const DURATION_MAX_DAYS = 36_500
/** Node's timers count milliseconds in 31 bits. Asked to wait longer, they do not wait at all. */
const TIMER_MAX_DAYS = 24

/** How long something lasts, or how far away it is, in ms. Not for timers, which take `interval`. */
export const duration = timeUpTo(DURATION_MAX_DAYS)

/** How long a timer waits, in ms. */
export const interval = timeUpTo(TIMER_MAX_DAYS)

export const intervalOrOff = (text: string): number | 'off' => (text === 'off' ? text : interval(text))
