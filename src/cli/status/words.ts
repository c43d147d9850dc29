// A status as JSON for a script, and in words for a person.

import { formatInstant, type Instant, SECOND_MS } from '../../core/instant.ts'
import { formatUsd } from '../../core/money.ts'
import { spellSpan } from '../../core/span.ts'
import type { Status } from '../../store/status.ts'
import { renderFields } from '../terminal/table.ts'
import { type SandboxJson, sandboxLines } from './sandboxes.ts'

/** How far back status looks for windows that ended with money unspent. */
export const UNSPENT_DAYS = 7

export const statusJson = (status: Status, now: Instant, sandboxes: SandboxJson[]) => ({
  at: formatInstant(now),
  last_tick_at: status.lastPass && formatInstant(status.lastPass.at),
  last_tick_age_seconds: secondsSince(status.lastPass?.at ?? null, now),
  plans: status.plans,
  partners: status.partners,
  executions_open: status.openExecutions,
  due_backlog: status.due.count,
  oldest_due_age_seconds: secondsSince(status.due.oldestAt, now),
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
  sandboxes,
})

export type StatusJson = ReturnType<typeof statusJson>

export function statusInWords(json: StatusJson): string {
  const { plans, partners, unspent_windows: unspent, sandboxes } = json
  return renderFields({
    'last tick':
      json.last_tick_age_seconds === null
        ? 'never'
        : `${json.last_tick_at} (${spellSeconds(json.last_tick_age_seconds)} ago)`,
    plans: `${plans.active} active, ${plans.paused} paused, ${plans.cancelled} cancelled`,
    partners: `${partners.active} active, ${partners.disabled} disabled`,
    'open executions': json.executions_open,
    'due now': dueInWords(json),
    'paused webhooks':
      json.paused_webhooks.map((paused) => `${paused.partner_slug} ${paused.environment}`).join(', ') ||
      'none',
    'ended unspent': `${unspent.count} windows in ${UNSPENT_DAYS} days, ${unspent.released_usd} USD`,
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
  from === null ? null : Math.max(0, Math.round((to - from) / SECOND_MS))

const spellSeconds = (seconds: number): string => spellSpan(seconds * SECOND_MS)
