// Whether the scheduler is late: the one rule behind readiness, `check`, `status`, the metric and the alert.

import { spellSpan } from './duration-words.ts'
import { HOUR_MS, type Instant, MINUTE_MS } from './instant.ts'

/** Late is never sooner than this, however often passes come. */
export const GRACE_MS = 10 * MINUTE_MS
/** A scheduler may miss this many of its usual gaps: as many as the failsafe's lead covers (docs/engine.md). */
export const GAPS_ALLOWED = 2
/** What a single pass says of the next one: nothing, so the slowest cron that is common is assumed. */
const GAP_UNKNOWN_MS = HOUR_MS
/** The newest gaps that make the usual one: their median, so that one outage does not count. */
const GAPS_SEEN = 8

/** Passes to read for `latestAt`: one more than the gaps between them. */
export const LATENESS_PASSES = GAPS_SEEN + 1

export type SchedulerSeen = {
  /** When the latest passes began, the newest first; LATENESS_PASSES of them are enough. */
  latestAt: readonly Instant[]
  /** When the newest pass that came to its end began; null before the first. */
  lastFinishedAt: Instant | null
  /** Since when the first plan that passes must visit has existed; null when there is none. Sandboxes do not count. */
  waitingSince: Instant | null
}

export type SchedulerLateness = {
  isLate: boolean
  /** How long the plans have gone without a finished pass; null when no plan waits for one. */
  waitedMs: number | null
  /** How long they may. */
  allowedMs: number
  /** The usual time between passes; null when fewer than two are known. */
  usualGapMs: number | null
}

/**
 * Late is a scheduler that plans wait for and that has finished no pass for ten minutes and two of its usual gaps. An
 * hourly cron may be away for 130 minutes, a minutely one for 12. Before the first pass ten minutes are allowed.
 */
export function schedulerLateness(seen: SchedulerSeen, now: Instant): SchedulerLateness {
  const { latestAt, lastFinishedAt, waitingSince } = seen
  const usualGapMs = usualGap(latestAt)
  const gapMs = latestAt.length === 0 ? 0 : (usualGapMs ?? GAP_UNKNOWN_MS)
  const allowedMs = GRACE_MS + GAPS_ALLOWED * gapMs
  if (waitingSince === null) return { isLate: false, waitedMs: null, allowedMs, usualGapMs }
  // A plan that is younger than the last pass has waited only since its own creation.
  const since = lastFinishedAt === null ? waitingSince : Math.max(waitingSince, lastFinishedAt)
  const waitedMs = Math.max(0, now - since)
  return { isLate: waitedMs > allowedMs, waitedMs, allowedMs, usualGapMs }
}

/** Why the scheduler is late, as part of a sentence: "the last finished tick began 3 h ago; 1 h is usual". */
export function latenessInWords(
  { lastFinishedAt }: SchedulerSeen,
  now: Instant,
  usualGapMs: number | null,
): string {
  const usual = usualGapMs === null ? '' : `; ${spellSpan(usualGapMs)} is usual`
  return lastFinishedAt === null
    ? `no tick has ever finished, and plans wait for one${usual}`
    : `the last finished tick began ${spellSpan(now - lastFinishedAt)} ago${usual}`
}

/** The median of the newest gaps; null when there is none. A gap below zero is a clock set back, and counts as none. */
function usualGap(latestAt: readonly Instant[]): number | null {
  const gaps = latestAt
    .slice(0, LATENESS_PASSES)
    .flatMap((at, i, all) => (i === 0 ? [] : [Math.max(0, (all[i - 1] ?? at) - at)]))
    .sort((a, b) => a - b)
  return gaps[gaps.length >> 1] ?? null
}
