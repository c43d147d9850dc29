// Integers of a row to instants.

import type { Instant } from '../../core/instant.ts'

export const instant = (value: bigint): Instant => Number(value) as Instant
export const instantOrNull = (value: bigint | null): Instant | null =>
  value === null ? null : instant(value)
