// Which test environments live ahead of the real time, for status and check.

import { DAY_MS, formatInstant, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../core/instant.ts'
import type { Sandbox } from '../../store/sandboxes.ts'

export const sandboxesJson = (sandboxes: readonly Sandbox[]) =>
  sandboxes.map(({ tenant, offsetMs, now }) => ({
    partner_slug: tenant.partnerSlug,
    environment: tenant.environment,
    offset_ms: offsetMs,
    now: formatInstant(now),
  }))

export const sandboxLines = (sandboxes: ReturnType<typeof sandboxesJson>): string[] =>
  sandboxes.map((one) => `${one.partner_slug} ${one.environment} is ${spoken(one.offset_ms)} ahead`)

/** A time span as a person would say it, down to the second. */
export function spoken(ms: number): string {
  const units = [
    [DAY_MS, 'd'],
    [HOUR_MS, 'h'],
    [MINUTE_MS, 'min'],
    [SECOND_MS, 's'],
  ] as const
  let rest = ms
  const parts: string[] = []
  for (const [unit, name] of units) {
    if (rest >= unit) parts.push(`${Math.floor(rest / unit)} ${name}`)
    rest %= unit
  }
  return parts.join(' ') || '0 s'
}
