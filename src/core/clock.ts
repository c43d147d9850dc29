// Time that cannot be relied on: a machine's clock that another source contradicts, and a scheduler that is late.

import { Problem } from './problem.ts'
import { formatInstant, HOUR_MS, type Instant, MINUTE_MS, plus, spellSpan } from './time.ts'

// Whether a pass may trust the machine's clock, compared with a second source of time.

/** The largest difference between a clock and its witness that is tolerated. Beyond it, neither is trusted. */
export const CLOCK_DIFFERENCE_MAX_MS = 10 * MINUTE_MS

export type Witness = { source: string; at: Instant }
/** `silent`: the witness gave no time. `none`: no witness was asked. */
export type Testimony = Witness | 'silent' | 'none'

export type Dispute = { clockAt: Instant; witness: Witness }

export const agree = (clock: Instant, testimony: Instant): boolean =>
  Math.abs(clock - testimony) <= CLOCK_DIFFERENCE_MAX_MS

/**
 * Decides whether the clock is disputed, from the present testimony and the open dispute. A silent witness neither
 * starts nor ends a dispute, unless the clock has been set in the meantime. A pass without a witness ends it.
 */
export function decideDispute(clock: Instant, testimony: Testimony, open: Dispute | null): Dispute | null {
  if (testimony === 'none') return null
  if (testimony !== 'silent')
    return agree(clock, testimony.at) ? null : { clockAt: clock, witness: testimony }
  if (open === null || wasSet(open, clock)) return null
  const { source, at } = open.witness
  return { clockAt: clock, witness: { source, at: plus(at, clock - open.clockAt) } }
}

/** Whether the clock has been corrected: one that was ahead has gone back, or one that was behind has caught up. */
const wasSet = ({ clockAt, witness }: Dispute, clock: Instant): boolean =>
  clockAt > witness.at ? clock < clockAt : clock >= plus(witness.at, -CLOCK_DIFFERENCE_MAX_MS)

export const disputeInWords = ({ clockAt, witness }: Dispute): string =>
  `this machine shows ${formatInstant(clockAt)} and ${witness.source} ${formatInstant(witness.at)}, ` +
  `${spellSpan(Math.abs(clockAt - witness.at))} ${clockAt > witness.at ? 'earlier' : 'later'}`

export const clockDisputed = (dispute: Dispute): Problem =>
  new Problem(
    'clock_disputed',
    `The clock is in doubt: ${disputeInWords(dispute)}. Nothing fires and no window rolls until they agree.`,
  )

// Whether the scheduler is late: the only rule for readiness, `check`, `status`, the metric and the alert.

/** A scheduler is never late before this, however often passes usually come. */
export const GRACE_MS = 10 * MINUTE_MS
/** A scheduler may miss this many of its usual gaps: as many as the failsafe's lead covers (docs/engine.md). */
export const GAPS_ALLOWED = 2
/** The gap assumed while only one pass is known: that of the slowest cron schedule in common use. */
const GAP_UNKNOWN_MS = HOUR_MS
/** The usual gap is the median of this many newest gaps, so that one outage does not count. */
const GAPS_SEEN = 8

/** Passes to read for `latestAt`: one more than the gaps between them. */
export const LATENESS_PASSES = GAPS_SEEN + 1

/** A pass is overdue once the last one is this many usual gaps old. */
const GAPS_OVERDUE = 3

export type SchedulerFacts = {
  /** When the latest passes began, the newest first; LATENESS_PASSES of them are enough. */
  latestAt: readonly Instant[]
  /** When the newest finished pass began; null before the first. */
  lastFinishedAt: Instant | null
  /** When the oldest plan that passes must visit was created; null when there is none. Sandboxes do not count. */
  waitingSince: Instant | null
}

type SchedulerLateness = {
  isLate: boolean
  /** How long the plans have gone without a finished pass; null when no plan waits for one. */
  waitedMs: number | null
  allowedMs: number
  /** The usual time between passes; null when fewer than two are known. */
  usualGapMs: number | null
}

/**
 * A scheduler is late when plans wait and no pass has finished for ten minutes plus two of its usual gaps. An hourly
 * cron may be silent for 130 minutes, a minutely one for 12. Before the first pass ten minutes are allowed.
 */
export function schedulerLateness(facts: SchedulerFacts, now: Instant): SchedulerLateness {
  const { latestAt, lastFinishedAt, waitingSince } = facts
  const usualGapMs = usualGap(latestAt)
  const gapMs = latestAt.length === 0 ? 0 : (usualGapMs ?? GAP_UNKNOWN_MS)
  const allowedMs = GRACE_MS + GAPS_ALLOWED * gapMs
  if (waitingSince === null) return { isLate: false, waitedMs: null, allowedMs, usualGapMs }
  // A plan younger than the last pass has waited only since its creation.
  const since = lastFinishedAt === null ? waitingSince : Math.max(waitingSince, lastFinishedAt)
  const waitedMs = Math.max(0, now - since)
  return { isLate: waitedMs > allowedMs, waitedMs, allowedMs, usualGapMs }
}

/** Whether a pass is overdue by the usual gap alone: no finding yet, but a screen must not show it as good. */
export function isOverdue({ latestAt, lastFinishedAt }: SchedulerFacts, now: Instant): boolean {
  const gap = usualGap(latestAt)
  return gap !== null && lastFinishedAt !== null && now - lastFinishedAt > GAPS_OVERDUE * gap
}

/** Why the scheduler is late, as part of a sentence: "the last finished tick began 3 h ago; 1 h is usual". */
export function latenessInWords(
  { lastFinishedAt }: SchedulerFacts,
  now: Instant,
  usualGapMs: number | null,
): string {
  const usual = usualGapMs === null ? '' : `; ${spellSpan(usualGapMs)} is usual`
  return lastFinishedAt === null
    ? `no tick has ever finished, and plans wait for one${usual}`
    : `the last finished tick began ${spellSpan(now - lastFinishedAt)} ago${usual}`
}

/** The median of the newest gaps; null when there is none. A negative gap does not count: the clock was set back. */
function usualGap(latestAt: readonly Instant[]): number | null {
  const gaps = latestAt
    .slice(0, LATENESS_PASSES)
    .flatMap((at, i, all) => (i === 0 ? [] : [Math.max(0, (all[i - 1] ?? at) - at)]))
    .sort((a, b) => a - b)
  return gaps[gaps.length >> 1] ?? null
}
