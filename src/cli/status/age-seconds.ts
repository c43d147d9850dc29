// Spans of time as a status gives them: whole seconds for a script, in words for a person.

import { spellSpan } from '../../core/duration-words.ts'
import { type Instant, SECOND_MS } from '../../core/instant.ts'

export const seconds = (ms: number): number => Math.round(ms / SECOND_MS)
export const spellSeconds = (count: number): string => spellSpan(count * SECOND_MS)

export const secondsSince = (from: Instant | null, to: Instant): number | null =>
  from === null ? null : Math.max(0, seconds(to - from))
