// How a span of time is put in words, the same way wherever a person reads one.

import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from './instant.ts'

const UNITS = [
  [DAY_MS, 'd'],
  [HOUR_MS, 'h'],
  [MINUTE_MS, 'min'],
  [SECOND_MS, 's'],
] as const

/** Exact to the second, without the units that are zero: "7 d 5 min". What is negative counts as nothing. */
export function spellSpan(ms: number): string {
  let rest = Math.max(0, Math.round(ms / SECOND_MS) * SECOND_MS)
  const parts: string[] = []
  for (const [unit, name] of UNITS) {
    if (rest >= unit) parts.push(`${Math.floor(rest / unit)} ${name}`)
    rest %= unit
  }
  return parts.join(' ') || '0 s'
}
