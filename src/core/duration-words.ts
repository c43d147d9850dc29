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

/** The same for what often takes less than a minute: "84 ms", "1.2 s". */
export function spellBriefSpan(ms: number): string {
  if (ms < SECOND_MS) return `${Math.max(0, Math.round(ms))} ms`
  // From 59.95 s on, one decimal place would say 60.
  return ms < MINUTE_MS - 50 ? `${(ms / SECOND_MS).toFixed(1)} s` : spellSpan(ms)
}
