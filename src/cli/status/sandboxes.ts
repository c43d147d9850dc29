// Which test environments are ahead of the real time, for status and check.

import { spellSpan } from '../../core/duration-words.ts'
import { formatInstant } from '../../core/instant.ts'
import type { Sandbox } from '../../store/sandboxes.ts'

export const sandboxJson = ({ tenant, offsetMs, now }: Sandbox) => ({
  partner_slug: tenant.partnerSlug,
  environment: tenant.environment,
  offset_ms: offsetMs,
  now: formatInstant(now),
})

export type SandboxJson = ReturnType<typeof sandboxJson>

export const sandboxLines = (sandboxes: readonly SandboxJson[]): string[] =>
  sandboxes.map((one) => `${one.partner_slug} ${one.environment} is ${spellSpan(one.offset_ms)} ahead`)
