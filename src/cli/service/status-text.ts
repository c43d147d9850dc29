// A status as JSON for a script, and in words for a person.

import { latenessInWords, type SchedulerFacts, schedulerLateness } from '../../core/clock.ts'
import {
  type DiskVitals,
  type FeedVitals,
  type Finding,
  findingsOf,
  type JobResult,
  type PartnerVitals,
  UNSPENT_DAYS,
  type Vitals,
} from '../../core/findings.ts'
import { frozenJson } from '../../core/frozen.ts'
import { formatPrice, formatUsd, type Usd } from '../../core/money.ts'
import { type Environment, tenantJson } from '../../core/partner.ts'
import { counted, cut, grouped, spellFree } from '../../core/text.ts'
import {
  DAY_MS,
  formatInstant,
  formatInstantOrNull,
  type Instant,
  plus,
  SECOND_MS,
  spellSpan,
} from '../../core/time.ts'
import type { Backlog, Stock } from '../../store/monitoring.ts'
import type { Sandbox } from '../../store/store.ts'
import { commandLine, type FindingJson, findingInWords, findingJson } from '../command.ts'
import type { Cli } from '../context.ts'
import { type Column, renderFields, renderTable } from '../terminal.ts'

/** One look: the facts that status shows, on a live screen or elsewhere. */
export type Health = {
  at: Instant
  vitals: Vitals
  stock: Stock
  backlog: Record<Environment, Backlog>
  sandboxes: Sandbox[]
}

/** More of them would say nothing new at a glance; `check` names them all. */
const FINDINGS_SHOWN = 10

function hasTest({ stock, backlog, sandboxes }: Health): boolean {
  const { active, paused, cancelled } = stock.plans.test
  return active + paused + cancelled + backlog.test.open + sandboxes.length > 0
}

/** The numbers are those of the live environments; test environments are kept apart. */
export const statusJson = (cli: Pick<Cli, 'self'>, health: Health) => {
  const { at, vitals, stock, backlog, sandboxes } = health
  const { scheduler, partners, unspent, price, feed, disk } = vitals
  return {
    at: formatInstant(at),
    last_tick_at: formatInstantOrNull(scheduler.lastFinishedAt),
    last_tick_age_seconds: secondsSince(scheduler.lastFinishedAt, at),
    frozen: vitals.frozen && frozenJson(vitals.frozen),
    scheduler: schedulerJson(scheduler, at),
    price: price && {
      price_usd: formatPrice(price.price),
      at: formatInstant(price.at),
      age_seconds: secondsSince(price.at, at),
      source: price.source,
    },
    price_feed: feed && feedJson(feed),
    plans: stock.plans.live,
    partners: {
      active: partners.filter(({ status }) => status === 'active').length,
      disabled: partners.filter(({ status }) => status === 'disabled').length,
      held: partners.filter(({ held }) => held).length,
    },
    executions_open: backlog.live.open,
    due_backlog: backlog.live.due,
    oldest_due_age_seconds: secondsSince(backlog.live.oldestDueAt, at),
    orders_24h: {
      filled: partners.reduce((sum, { orders }) => sum + orders.filled, 0),
      failed: partners.reduce((sum, { orders }) => sum + orders.failed, 0),
    },
    paused_webhooks: partners
      .filter(({ webhook }) => webhook?.paused)
      .map(({ tenant }) => tenantJson(tenant)),
    unspent_windows: {
      since: formatInstant(plus(at, -UNSPENT_DAYS * DAY_MS)),
      count: unspent.reduce((sum, { windows }) => sum + windows, 0),
      released_usd: formatUsd(unspent.reduce((sum, { released }) => sum + released, 0n) as Usd),
    },
    late_fills_undecided: partners.reduce((sum, { lateFills }) => sum + (lateFills?.kept ?? 0), 0),
    late_fills_unkept: partners.reduce((sum, { lateFills }) => sum + (lateFills?.unkept ?? 0), 0),
    disk: disk && diskJson(disk),
    jobs: vitals.results.map(resultJson),
    by_partner: partners.map((partner) => partnerJson(partner, at)),
    test: {
      plans: stock.plans.test,
      executions_open: backlog.test.open,
      due_backlog: backlog.test.due,
      show: hasTest(health) ? commandLine(cli.self(), ['tranche', 'status', '--env', 'test']) : null,
    },
    sandboxes: sandboxes.map(sandboxJson),
    findings: findingsOf(vitals, at).map((finding) => findingJson(cli, finding, 'warning')),
  }
}

/** `reason` says why it is late, and is null when it is not. */
function schedulerJson(facts: SchedulerFacts, now: Instant) {
  const { isLate, waitedMs, allowedMs, usualGapMs } = schedulerLateness(facts, now)
  return {
    late: isLate,
    waited_seconds: waitedMs === null ? null : seconds(waitedMs),
    allowed_seconds: seconds(allowedMs),
    usual_gap_seconds: usualGapMs === null ? null : seconds(usualGapMs),
    reason: isLate ? latenessInWords(facts, now, usualGapMs) : null,
  }
}

const feedJson = ({ name, askedAt, down }: FeedVitals) => ({
  name,
  asked_at: formatInstant(askedAt),
  down_since: down && formatInstant(down.since),
  reason: down?.reason ?? null,
})

const diskJson = ({ folder, freeBytes, totalBytes, dayGrowthBytes }: DiskVitals) => ({
  folder,
  free_bytes: freeBytes,
  total_bytes: totalBytes,
  day_growth_bytes: dayGrowthBytes,
})

export type StatusJson = ReturnType<typeof statusJson>

export async function statusInWords(json: StatusJson): Promise<string> {
  const { findings } = json
  const more = findings.length - FINDINGS_SHOWN
  return [
    renderFields(fieldsOf(json)),
    ...(await partnerTable(json)),
    ...findings.slice(0, FINDINGS_SHOWN).map(findingInWords),
    ...(more > 0 ? [`${counted(more, 'more warning')}: tranche check`] : []),
  ].join('\n\n')
}

function fieldsOf(json: StatusJson): Record<string, string | number> {
  const { frozen, plans, partners, unspent_windows: unspent, orders_24h: orders, sandboxes } = json
  const { due_backlog: due, oldest_due_age_seconds: oldest } = json
  return {
    ...(frozen && { frozen: `since ${frozen.at} by ${frozen.by}: ${frozen.reason}` }),
    'last tick':
      json.last_tick_age_seconds === null
        ? 'never'
        : `${json.last_tick_at} (${spellSeconds(json.last_tick_age_seconds)} ago)`,
    price: priceInWords(json),
    plans: `${plans.active} active, ${plans.paused} paused, ${plans.cancelled} cancelled`,
    partners: `${partners.active} active, ${partners.disabled} disabled${heldInWords(json)}`,
    'open executions': json.executions_open,
    'due now': oldest === null ? String(due) : `${due}, the oldest waiting ${spellSeconds(oldest)}`,
    'orders in 24 h': `${orders.filled} filled, ${orders.failed} failed`,
    'paused webhooks': webhooksInWords(json.paused_webhooks) || 'none',
    'ended unspent': `${counted(unspent.count, 'window')} in ${UNSPENT_DAYS} days, ${unspent.released_usd} USD`,
    ...(json.disk && { disk: spellFree(json.disk.free_bytes, json.disk.total_bytes) }),
    ...checkFields(json),
    ...testFields(json),
    ...(sandboxes.length > 0 && { sandboxes: sandboxLines(sandboxes).join(', ') }),
  }
}

const resultJson = ({ job, host, at, ok, wellAt, endsAt, message }: JobResult) => ({
  job,
  host: host || null,
  at: formatInstant(at),
  ok,
  well_at: formatInstantOrNull(wellAt),
  ends_at: formatInstantOrNull(endsAt),
  message,
})

function checkFields({ at, jobs }: StatusJson): Record<string, string> {
  const check = jobs.find(({ job }) => job === 'check')
  if (!check) return {}
  const ago = spellSpan(Math.max(0, Date.parse(at) - Date.parse(check.at)))
  return { 'last check': `${check.at} (${ago} ago): ${check.message || 'ok'}` }
}

/** The partners whose plans do not fire until they are released. */
const heldInWords = ({ by_partner }: StatusJson): string => {
  const held = by_partner.filter((one) => one.held).map(({ partner_slug }) => partner_slug)
  return held.length === 0 ? '' : `, ${held.length} held (${held.join(', ')})`
}

function testFields({ test }: StatusJson): Record<string, string> {
  const { plans, executions_open: open, due_backlog: due, show } = test
  if (show === null) return {}
  return {
    'in test': `${counted(plans.active, 'plan')} active, ${counted(open, 'execution')} open, ${due} due: ${show}`,
  }
}

function priceInWords({ price, price_feed: feed }: StatusJson): string {
  const newest =
    price === null
      ? 'none'
      : `${grouped(price.price_usd)} USD, ${spellSeconds(price.age_seconds ?? 0)} old, from ${price.source}`
  const state = feed === null ? '' : `; feed ${feed.name} ${feed.down_since === null ? 'answers' : 'is down'}`
  return newest + state
}

export const webhooksInWords = (paused: StatusJson['paused_webhooks']): string =>
  paused.map(({ partner_slug, environment }) => `${partner_slug} ${environment}`).join(', ')

// The partners of a status as a table: when each was last heard from, what waits for it, and what became of its orders.

const partnerJson = (
  { tenant, held, polledAt, confirmedAt, due, oldestDueAt, orders }: PartnerVitals,
  now: Instant,
) => ({
  partner_slug: tenant.partnerSlug,
  held,
  last_poll_at: formatInstantOrNull(polledAt),
  last_confirm_at: formatInstantOrNull(confirmedAt),
  due_backlog: due,
  oldest_due_age_seconds: secondsSince(oldestDueAt, now),
  orders_24h: {
    filled: orders.filled,
    failed: orders.failed,
    commonest_failure_reason: orders.commonestReason,
  },
})

type Row = ReturnType<typeof partnerJson>
type Json = { at: string; by_partner: Row[]; findings: Pick<FindingJson, 'partner_slug'>[] }

/** As many as fit on a screen beside the rest; `--json` has them all. */
const PARTNERS_SHOWN = 10

/** A reason is the partner's own text, of any length: --json has all of it. */
const REASON_SHOWN = 40

/** Nothing without a partner that does anything; else the table, those that findings name first. */
export async function partnerTable({ at, by_partner, findings }: Json): Promise<string[]> {
  const named = new Set(findings.map(({ partner_slug }) => partner_slug))
  const busy = by_partner.filter(
    ({ partner_slug: slug, due_backlog: due, last_poll_at: polled, last_confirm_at: confirmed }) =>
      named.has(slug) || due > 0 || polled !== null || confirmed !== null,
  )
  if (busy.length === 0) return []
  const rows = busy.sort((a, b) => Number(named.has(b.partner_slug)) - Number(named.has(a.partner_slug)))
  const more = rows.length - PARTNERS_SHOWN
  const table = await renderTable(columnsAt(Date.parse(at)), rows.slice(0, PARTNERS_SHOWN))
  return [more > 0 ? `${table}\n${counted(more, 'more partner')}: tranche status --json` : table]
}

function columnsAt(now: number): Column<Row>[] {
  const ago = (then: string | null): string =>
    then === null ? 'never' : `${spellSpan(now - Date.parse(then))} ago`
  return [
    { title: 'PARTNER', of: (row) => row.partner_slug },
    { title: 'LAST POLL', of: (row) => ago(row.last_poll_at) },
    { title: 'LAST CONFIRM', of: (row) => ago(row.last_confirm_at) },
    { title: 'DUE', of: (row) => row.due_backlog, right: true },
    {
      title: 'OLDEST',
      of: ({ oldest_due_age_seconds: age }) => (age === null ? null : spellSeconds(age)),
    },
    { title: 'FILLED 24 H', of: (row) => row.orders_24h.filled, right: true },
    { title: 'FAILED 24 H', of: (row) => row.orders_24h.failed, right: true },
    {
      title: 'MOST OFTEN',
      of: ({ orders_24h: { commonest_failure_reason: why } }) => why && cut(why, REASON_SHOWN),
    },
  ]
}

// The status of the test environments, for those who integrate: what is in them, and fills with odd figures.

export const testStatusJson = (
  cli: Pick<Cli, 'self'>,
  { at, stock, backlog, sandboxes }: Health,
  findings: readonly Finding[],
) => ({
  at: formatInstant(at),
  environment: 'test',
  plans: stock.plans.test,
  executions_open: backlog.test.open,
  due_backlog: backlog.test.due,
  sandboxes: sandboxes.map(sandboxJson),
  findings: findings.map((finding) => findingJson(cli, finding, 'warning')),
})

export function testStatusInWords(json: ReturnType<typeof testStatusJson>): string {
  const { plans, sandboxes, findings } = json
  const fields = {
    environment: json.environment,
    plans: `${plans.active} active, ${plans.paused} paused, ${plans.cancelled} cancelled`,
    'open executions': json.executions_open,
    'due now': json.due_backlog,
    ...(sandboxes.length > 0 && { sandboxes: sandboxLines(sandboxes).join(', ') }),
    warnings: findings.length === 0 ? 'none' : findings.length,
  }
  return [renderFields(fields), ...findings.map(findingInWords)].join('\n\n')
}

// Which test environments are ahead of the real time, for status and check.

export const sandboxJson = ({ tenant, offsetMs, now }: Sandbox) => ({
  ...tenantJson(tenant),
  offset_ms: offsetMs,
  now: formatInstant(now),
})

export const sandboxLines = (sandboxes: readonly ReturnType<typeof sandboxJson>[]): string[] =>
  sandboxes.map((one) => `${one.partner_slug} ${one.environment} is ${spellSpan(one.offset_ms)} ahead`)

// Spans of time as a status gives them: whole seconds for a script, in words for a person.

const seconds = (ms: number): number => Math.round(ms / SECOND_MS)
const spellSeconds = (count: number): string => spellSpan(count * SECOND_MS)

const secondsSince = (from: Instant | null, to: Instant): number | null =>
  from === null ? null : Math.max(0, seconds(to - from))
