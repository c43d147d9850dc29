// A status as JSON for a script, and in words for a person.

import { UNSPENT_DAYS } from '../../core/alarms.ts'
import { counted } from '../../core/counted.ts'
import { formatInstant, type Instant, SECOND_MS } from '../../core/instant.ts'
import { formatUsd } from '../../core/money.ts'
import { latenessInWords, type SchedulerSeen, schedulerLateness } from '../../core/scheduler-lateness.ts'
import { spellSpan } from '../../core/span.ts'
import type { Backlog, PlanCounts } from '../../store/monitoring.ts'
import type { Sandbox } from '../../store/sandboxes.ts'
import type { Status } from '../../store/status.ts'
import { renderFields } from '../terminal/table.ts'
import { sandboxJson, sandboxLines } from './sandboxes.ts'

/** One look: what status shows, on a screen or off it. */
export type Health = {
  at: Instant
  status: Status
  scheduler: SchedulerSeen
  plans: PlanCounts
  backlog: Backlog
  sandboxes: Sandbox[]
}

export const statusJson = ({ at, status, scheduler, plans, backlog, sandboxes }: Health) => ({
  at: formatInstant(at),
  last_tick_at: scheduler.lastFinishedAt && formatInstant(scheduler.lastFinishedAt),
  last_tick_age_seconds: secondsSince(scheduler.lastFinishedAt, at),
  scheduler: schedulerJson(scheduler, at),
  plans,
  partners: status.partners,
  executions_open: backlog.open,
  due_backlog: backlog.due,
  oldest_due_age_seconds: secondsSince(backlog.oldestDueAt, at),
  paused_webhooks: status.pausedWebhooks.map(({ partnerSlug, environment }) => ({
    partner_slug: partnerSlug,
    environment,
  })),
  unspent_windows: {
    since: formatInstant(status.unspentWindows.since),
    count: status.unspentWindows.count,
    released_usd: formatUsd(status.unspentWindows.released),
  },
  late_fills_undecided: status.lateFillsUndecided,
  sandboxes: sandboxes.map(sandboxJson),
})

/** `reason` says why it is late, and is null when it is not. */
function schedulerJson(seen: SchedulerSeen, now: Instant) {
  const { isLate, waitedMs, allowedMs, usualGapMs } = schedulerLateness(seen, now)
  return {
    late: isLate,
    waited_seconds: waitedMs === null ? null : seconds(waitedMs),
    allowed_seconds: seconds(allowedMs),
    usual_gap_seconds: usualGapMs === null ? null : seconds(usualGapMs),
    reason: isLate ? latenessInWords(seen, now, usualGapMs) : null,
  }
}

export type StatusJson = ReturnType<typeof statusJson>

export function statusInWords(json: StatusJson): string {
  const { plans, partners, unspent_windows: unspent, sandboxes } = json
  return renderFields({
    'last tick':
      json.last_tick_age_seconds === null
        ? 'never'
        : `${json.last_tick_at} (${spellSeconds(json.last_tick_age_seconds)} ago)`,
    ...(json.scheduler.reason !== null && { scheduler: `late: ${json.scheduler.reason}` }),
    plans: `${plans.active} active, ${plans.paused} paused, ${plans.cancelled} cancelled`,
    partners: `${partners.active} active, ${partners.disabled} disabled`,
    'open executions': json.executions_open,
    'due now': dueInWords(json),
    'paused webhooks':
      json.paused_webhooks.map((paused) => `${paused.partner_slug} ${paused.environment}`).join(', ') ||
      'none',
    'ended unspent': `${counted(unspent.count, 'window')} in ${UNSPENT_DAYS} days, ${unspent.released_usd} USD`,
    // Money may have moved, and nobody has decided on it yet.
    ...(json.late_fills_undecided > 0 && {
      'late fills': `${json.late_fills_undecided} to decide on: tranche execution late-fills`,
    }),
    ...(sandboxes.length > 0 && { sandboxes: sandboxLines(sandboxes).join(', ') }),
  })
}

function dueInWords({ due_backlog: due, oldest_due_age_seconds: oldest }: StatusJson): string {
  if (due === 0) return '0'
  return oldest === null ? `${due}, all in sandboxes` : `${due}, the oldest for ${spellSeconds(oldest)}`
}

const secondsSince = (from: Instant | null, to: Instant): number | null =>
  from === null ? null : Math.max(0, seconds(to - from))

const seconds = (ms: number): number => Math.round(ms / SECOND_MS)
const spellSeconds = (count: number): string => spellSpan(count * SECOND_MS)
