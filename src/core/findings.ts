// Findings: what an operator should look after. Each is one pure rule, from the vitals to a code, a message and the
// next command. `check`, `status`, its live screen, the metrics and the alert rules all use these.

import {
  type Dispute,
  disputeInWords,
  latenessInWords,
  type SchedulerFacts,
  schedulerLateness,
} from './clock.ts'
import type { ExecutionId } from './execution.ts'
import { FROZEN_GUIDE, type Frozen, frozenInWords } from './frozen.ts'
import { formatUsd, type Price, type Usd } from './money.ts'
import { ofTenant, type PartnerStatus, showPlan, type Tenant, tenantName } from './partner.ts'
import { PRICE_LIVE_MS } from './price.ts'
import { counted, spellBytes, spellFree } from './text.ts'
import { DAY_MS, formatInstant, type Instant, later, MINUTE_MS, spellSpan } from './time.ts'
import { FAILURES_TO_PAUSE } from './webhook.ts'

// Vitals: the facts about a running service, all of them cheap to read.

export type FeedVitals = {
  /** Its SPEC; for an address, only the origin. */
  name: string
  /** When the newest pass that asked it began. */
  askedAt: Instant
  /** Since when every pass that asked got no price, and why the newest got none; null while it answers. */
  down: { since: Instant; reason: string } | null
}

/** A partner's live environment. A test environment raises no alarm and is left out. */
export type PartnerVitals = {
  tenant: Tenant
  status: PartnerStatus
  held: boolean
  /** To the minute; null for never. */
  polledAt: Instant | null
  confirmedAt: Instant | null
  /** Instructions that a poll would deliver, and when the oldest of them was created. */
  due: number
  oldestDueAt: Instant | null
  stuck: { count: number; first: ExecutionId } | null
  /** Confirmations of the last 24 hours, and whether the newest few, of whatever day, all failed. */
  orders: { filled: number; failed: number; newestFailed: boolean; commonestReason: string | null }
  /** Since when it has had an active plan that is timed; null when it has none. */
  plansSince: Instant | null
  /** Null without a webhook. */
  webhook: {
    paused: boolean
    failures: number
    lastReason: string | null
    lastDeliveredAt: Instant | null
  } | null
  /** Late fills that nobody has decided on: those kept, and those only counted. */
  lateFills: { kept: number; oldestAt: Instant | null; unkept: number; firstUnkept: string | null } | null
}

/** Windows of a partner that ended with money left, and the plan that left the most. */
export type UnspentWindows = {
  tenant: Tenant
  windows: number
  released: Usd
  worst: { partnerPlanId: string; released: Usd }
}

export type EarlyFill = {
  tenant: Tenant
  executionId: ExecutionId
  executedAt: Instant
  createdAt: Instant
}

export type DiskVitals = {
  folder: string
  freeBytes: number
  totalBytes: number
  /** The database's growth in the last day, or since its first pass. */
  dayGrowthBytes: number
}

/**
 * The last result of a job other than the scheduler, and when it last succeeded. A host is named where each host has
 * its own job. A service counts as a job by the certificate that it shows.
 */
export type JobResult = {
  job: 'check' | 'backup' | 'certificate'
  host: string
  at: Instant
  ok: boolean
  wellAt: Instant | null
  /** From when on a certificate is valid; null for the other jobs. */
  beginsAt: Instant | null
  /** When a certificate ends, and by when the next check is due; null for a job that nobody has planned. */
  endsAt: Instant | null
  /** The findings or the error, or the names in the certificate. */
  message: string
  /** Where a backup's job puts them; null for the other jobs, and for results of releases before 2.0.0. */
  backups: Backups | null
}

/** The newest good backup in the folder, and the host that has it on its disk; null for a disk beside the database. */
export type Backups = { folder: string; newest: { file: string; host: string | null } | null }

/** `page`: money that should move does not, or soon will not. `ticket`: it can wait until the morning. */
type Severity = 'page' | 'ticket'

export type Finding = {
  /** The code, which never changes. */
  kind: string
  severity: Severity
  /** The tenant it is about; null for a finding about the whole service. */
  tenant: Tenant | null
  subject: string
  message: string
  /** The next command, word by word. Where the remedy moves money or data, it shows the guide, for nobody to paste. */
  next: readonly string[]
}

export type Vitals = {
  scheduler: SchedulerFacts
  dispute: Dispute | null
  frozen: Frozen | null
  feed: FeedVitals | null
  /** The newest price that is not ahead of the clock. */
  price: { price: Price; at: Instant; source: string } | null
  /** When a feed last gave a price; null before the first, and after `FED_FORGOTTEN_MS`. */
  fedAt: Instant | null
  partners: PartnerVitals[]
  unspent: UnspentWindows[]
  /** The newest first. */
  earlyFills: EarlyFill[]
  results: JobResult[]
  /** The newest backup, where its file is gone or empty; only the machine that has its folder can tell. */
  backupGone: string | null
  /** Findings that the reads of the store make themselves. */
  also: Finding[]
  /** Null for a database in memory, and on a server, whose disk is not visible from here. */
  disk: DiskVitals | null
}

/** Every finding, and how urgent it can be. The codes are stable: alert rules name them. */
export const FINDINGS = {
  ticks_stopped: ['page'],
  clock_disputed: ['page'],
  clock_back: ['page'],
  database_frozen: ['page'],
  disk_low: ['page'],
  file_closed: ['page'],
  partner_silent: ['page'],
  partner_failing: ['page'],
  serve_stopped: ['page'],
  standby_away: ['page', 'ticket'],
  certificate_ends: ['page', 'ticket'],
  check_found: ['page', 'ticket'],
  check_old: ['ticket'],
  backup_missing: ['ticket'],
  feed_down: ['ticket'],
  executions_stuck: ['ticket'],
  webhook_failing: ['ticket'],
  late_fills: ['ticket'],
  fill_early: ['ticket'],
  windows_unspent: ['ticket'],
  key_ends: ['ticket'],
  file_open: ['ticket'],
  wal_large: ['ticket'],
  trade_price: ['ticket'],
  windows_ahead: ['ticket'],
} as const satisfies Record<string, readonly [Severity, ...Severity[]]>

export type FindingKind = keyof typeof FINDINGS

/** Found only by reading whole tables: `check` looks for them, and `status` shows what the newest check found. */
export const OF_THE_CHECK: readonly string[] = ['trade_price', 'windows_ahead'] satisfies FindingKind[]

/** A finding as its rule makes it. Without a severity it is as urgent as its code can be. */
type Found = Omit<Finding, 'severity' | 'tenant'> & {
  kind: FindingKind
  severity?: Severity
  tenant?: Tenant
}

export const finding = (found: Found): Finding => ({
  ...found,
  severity: found.severity ?? FINDINGS[found.kind][0],
  tenant: found.tenant ?? null,
})

export const guideTo = (section: string): readonly string[] => ['tranche', 'docs', section]

/** The findings now: the urgent ones first, and among equals those about the whole service, then partner by partner. */
export function findingsOf(vitals: Vitals, now: Instant): Finding[] {
  const found = [
    ticksStopped(vitals, now),
    clockDisputed(vitals),
    databaseFrozen(vitals, now),
    feedDown(vitals, now),
    diskLow(vitals.disk),
    ...vitals.partners.flatMap((partner) => [
      partnerSilent(partner, now),
      partnerFailing(partner),
      executionsStuck(partner, now),
      webhookFailing(partner),
      lateFills(partner),
    ]),
    ...vitals.earlyFills.map(fillEarly),
    ...vitals.unspent.map(windowsUnspent),
    ...vitals.results.flatMap((result) => findingsOfResult(result, vitals, now)),
  ]
  return found
    .filter((one) => one !== null)
    .map(finding)
    .concat(vitals.also)
    .toSorted((a, b) => URGENCY.indexOf(a.severity) - URGENCY.indexOf(b.severity))
}

const URGENCY: readonly Severity[] = ['page', 'ticket']

/** Why no write of a server ends: `names` are the standbys that it waits for. */
export const standbyWords = (names: string): string =>
  `waits for a standby (synchronous_standby_names = ${names}), and none that counts is connected: no commit ends`

/** A frozen database needs no ticks. */
function ticksStopped({ scheduler, frozen }: Vitals, now: Instant): Found | null {
  if (frozen) return null
  const { isLate, usualGapMs } = schedulerLateness(scheduler, now)
  if (!isLate) return null
  const message = latenessInWords(scheduler, now, usualGapMs)
  return { kind: 'ticks_stopped', subject: 'scheduler', message, next: ['tranche', 'tick'] }
}

function clockDisputed({ dispute }: Vitals): Found | null {
  if (dispute === null) return null
  const message = `at the last tick ${disputeInWords(dispute)}; nothing fires and no window rolls until they agree`
  return { kind: 'clock_disputed', subject: 'clock', message, next: ['timedatectl', 'status'] }
}

function databaseFrozen({ frozen }: Vitals, now: Instant): Found | null {
  if (frozen === null) return null
  const isMoved = frozen.kind === 'moved'
  const message = isMoved
    ? `moved to ${frozen.movedTo} on ${formatInstant(frozen.at)} and takes no more writes: whatever still uses it fires nothing and records nothing`
    : `${frozenInWords(frozen)} (${spellSpan(now - frozen.at)}); nothing fires and nothing is delivered until somebody runs \`tranche resume\``
  const next = isMoved ? guideTo('operations#moving-to-another-database') : FROZEN_GUIDE
  return { kind: 'database_frozen', subject: 'database', message, next }
}

/** Whether, without a price, plans wait for passes that fire by the clock: not while the database is frozen. */
const goesByClock = ({ scheduler, frozen }: Vitals): boolean =>
  scheduler.waitingSince !== null && frozen === null

/**
 * A feed that gives no price, or one that nothing has asked for a day although plans wait for passes. A price given by
 * hand was for one pass, and one from a file is of the past: neither hides that. A feed that nobody configured is never
 * down.
 */
function feedDown(vitals: Vitals, now: Instant): Found | null {
  const { feed, price, fedAt } = vitals
  const age = price === null ? null : now - price.at
  const isLive = age !== null && age < PRICE_LIVE_MS
  const byClock = !isLive && goesByClock(vitals) ? ', so tranches fire by the clock' : ''
  if (feed?.down) {
    const { since, reason } = feed.down
    const consequence =
      age === null
        ? 'there is no price at all'
        : `the newest price is ${spellSpan(age)} old${isLive ? '' : ', too old to go by'}`
    return {
      kind: 'feed_down',
      subject: `price feed ${feed.name}`,
      message: `has given no price for ${spellSpan(now - since)}, since ${formatInstant(since)} (${reason}); ${consequence}${byClock}`,
      next: nextOfFeed(feed),
    }
  }
  if (fedAt === null || !goesByClock(vitals)) return null
  if (now - fedAt <= FED_MAX_MS || now - fedAt > FED_FORGOTTEN_MS) return null
  return {
    kind: 'feed_down',
    subject: 'prices',
    message: `no feed has given a price for ${spellSpan(now - fedAt)}${byClock}; do the ticks still have their --price-feed?`,
    next: ['tranche', 'price', 'list'],
  }
}

/** Asks as a tick does. Of an address only the origin is known: the command takes the rest from the settings. */
const nextOfFeed = ({ name }: FeedVitals): string[] =>
  name.includes('://') ? ['tranche', 'price', 'fetch'] : ['tranche', 'price', 'fetch', '--price-feed', name]

function diskLow(disk: DiskVitals | null): Found | null {
  if (disk === null) return null
  const { folder, freeBytes, totalBytes, dayGrowthBytes } = disk
  if (freeBytes >= totalBytes * DISK_FREE_MIN && freeBytes >= dayGrowthBytes) return null
  const growth = dayGrowthBytes > 0 ? `; the database grew by ${spellBytes(dayGrowthBytes)} in a day` : ''
  const message = `has ${spellFree(freeBytes, totalBytes)}${growth}; without room nothing fires and nothing is confirmed`
  return { kind: 'disk_low', subject: folder, message, next: ['df', '-h', folder] }
}

/**
 * A partner is silent when it does not fetch what is due, or has not polled for a day although plans are active. A
 * disabled partner cannot poll. An instruction counts from its creation: a partner that polled before that is not
 * silent yet.
 */
function partnerSilent(partner: PartnerVitals, now: Instant): Found | null {
  const { tenant, status, held, polledAt, confirmedAt, due, oldestDueAt, plansSince } = partner
  if (status !== 'active') return null
  const silentSince = (from: Instant): Instant => (polledAt === null ? from : later(polledAt, from))
  const ignoresDue = oldestDueAt !== null && now - silentSince(oldestDueAt) > DUE_LATE_MS
  const ignoresPlans = plansSince !== null && !held && now - silentSince(plansSince) > SILENT_MAX_MS
  if (!ignoresDue && !ignoresPlans) return null
  const silence =
    polledAt === null
      ? 'has never polled'
      : `has not polled for ${spellSpan(now - polledAt)}, since ${formatInstant(polledAt)}`
  const waiting = oldestDueAt === null ? 'its plans are active' : dueInWords(due, oldestDueAt, now)
  const confirmed =
    confirmedAt === null ? 'it has never confirmed' : `it last confirmed ${formatInstant(confirmedAt)}`
  return {
    kind: 'partner_silent',
    tenant,
    subject: tenantName(tenant),
    message: `${silence}; ${waiting}; ${confirmed}`,
    next: ['tranche', 'key', 'list', tenant.partnerSlug],
  }
}

/**
 * A partner is failing when most of a day's orders failed, and more than a few. A partner with one weekly plan has only
 * an order or two a day, so it is also failing when its newest orders all failed, whenever they were made, and the last
 * day brought no fill.
 */
function partnerFailing({ tenant, orders }: PartnerVitals): Found | null {
  const { filled, failed, newestFailed, commonestReason } = orders
  const isMostOfDay = failed >= FAILED_ORDERS_MIN && failed > filled
  if (!isMostOfDay && !(newestFailed && failed > 0 && filled === 0)) return null
  const reason = commonestReason === null ? 'it gives no reason' : `most often: ${commonestReason}`
  return {
    kind: 'partner_failing',
    tenant,
    subject: tenantName(tenant),
    message: isMostOfDay
      ? `${failed} of its ${filled + failed} orders of the last 24 hours failed; ${reason}`
      : `its newest ${FAILED_ORDERS_MIN} orders failed, and nothing was filled in the last 24 hours; ${reason}`,
    next: ['tranche', 'execution', 'list', ...ofTenant(tenant), '--status', 'failed'],
  }
}

/** The executions that `execution list --stuck` lists: never fetched, or never confirmed. */
function executionsStuck({ tenant, due, oldestDueAt, stuck }: PartnerVitals, now: Instant): Found | null {
  const isLate = oldestDueAt !== null && now - oldestDueAt > DUE_LATE_MS
  if (!isLate && stuck === null) return null
  const parts = [
    isLate ? dueInWords(due, oldestDueAt, now) : null,
    stuck &&
      `${stuck.count} delivered ${STUCK_DELIVERIES} times or more and never confirmed, the oldest ${stuck.first}`,
  ]
  return {
    kind: 'executions_stuck',
    tenant,
    subject: tenantName(tenant),
    message: parts.filter((part) => part !== null).join('; '),
    next: guideTo('levers#an-instruction-nobody-confirms'),
  }
}

function webhookFailing({ tenant, webhook }: PartnerVitals): Found | null {
  if (webhook === null || (!webhook.paused && webhook.failures < FAILURES_TO_WARN)) return null
  const { paused, failures, lastReason, lastDeliveredAt } = webhook
  const why = lastReason === null ? '' : ` (the last: ${lastReason})`
  const when = lastDeliveredAt === null ? 'never' : formatInstant(lastDeliveredAt)
  const often = `${counted(failures, 'failure')} in a row${why}, last delivered ${when}`
  const name = [tenant.partnerSlug, '--env', tenant.environment]
  const lift = `once a test gets through, \`tranche webhook resume ${name.join(' ')}\` lifts the pause`
  return {
    kind: 'webhook_failing',
    tenant,
    subject: tenantName(tenant),
    message: paused ? `paused after ${often}; ${lift}` : `${often}; it is paused after ${FAILURES_TO_PAUSE}`,
    next: ['tranche', 'webhook', 'test', ...name],
  }
}

/** Real money may have moved, and no operator has decided yet. */
export function lateFills({
  tenant,
  lateFills: late,
}: Pick<PartnerVitals, 'tenant' | 'lateFills'>): (Found & { tenant: Tenant }) | null {
  if (!late) return null
  const { kept, oldestAt, unkept, firstUnkept } = late
  const dismissed = firstUnkept === null ? ofTenant(tenant) : [firstUnkept]
  const dismiss = ['tranche', 'execution', 'dismiss-late', ...dismissed, '--reason', 'TEXT']
  const such = firstUnkept === null ? ' (of executions that are not known)' : `, such as of ${firstUnkept}`
  const more = unkept === 0 ? '' : `; ${unkept} more were counted and not kept${such}`
  return {
    kind: 'late_fills',
    tenant,
    subject: tenantName(tenant),
    message:
      oldestAt === null
        ? `${unkept} reported and refused; counted, not kept${such}: ask the partner, then \`${dismiss.join(' ')}\``
        : `${kept} reported, refused and awaiting a decision, the oldest since ${formatInstant(oldestAt)}${more}`,
    next: guideTo('levers#a-fill-that-was-refused'),
  }
}

/** A fill made before its execution existed is probably of another order, such as one of the sandbox. */
export function fillEarly({ tenant, executionId, executedAt, createdAt }: EarlyFill): Found {
  return {
    kind: 'fill_early',
    tenant,
    subject: `${tenantName(tenant)} execution ${executionId}`,
    message:
      `its fill is reported as made ${formatInstant(executedAt)}, ${spellSpan(createdAt - executedAt)} ` +
      'before this execution was created, so it may be of another order: ask the partner for its order, and adjust ' +
      'the trade if nothing was bought for it',
    next: guideTo('levers#a-fill-with-wrong-amounts'),
  }
}

function windowsUnspent({ tenant, windows, released, worst }: UnspentWindows): Found {
  const name = tenantName(tenant)
  const ended = counted(windows, 'window')
  return {
    kind: 'windows_unspent',
    tenant,
    subject: `${name} plan ${worst.partnerPlanId}`,
    message: `${formatUsd(worst.released)} USD of this plan were not spent; in all ${ended} of ${name} ended with ${formatUsd(released)} USD left in ${UNSPENT_DAYS} days`,
    next: ['tranche', ...showPlan(worst.partnerPlanId, tenant)],
  }
}

function findingsOfResult(result: JobResult, { backupGone }: Vitals, now: Instant): (Found | null)[] {
  switch (result.job) {
    case 'check':
      return [checkFound(result), checkOld(result, now)]
    case 'certificate':
      return [certificateEnds(result, now)]
    case 'backup':
      return [backupMissing(result, backupGone, now)]
    default:
      return result.job satisfies never
  }
}

const CHECK = ['tranche', 'check']

function checkFound({ at, ok, message: found }: JobResult): Found | null {
  if (ok && found === '') return null
  const message = `on ${formatInstant(at)} it found ${found}`
  return { kind: 'check_found', severity: ok ? 'ticket' : 'page', subject: 'check', message, next: CHECK }
}

/** Only where something runs it every day: a person who checks once has promised nothing. */
function checkOld({ at, endsAt }: JobResult, now: Instant): Found | null {
  if (endsAt === null || now <= endsAt) return null
  const message = `the newest is of ${formatInstant(at)}, though one is due every day; does its job still run?`
  return { kind: 'check_old', subject: 'check', message, next: CHECK }
}

/** The newest backup failed, is gone, or had no successor when one was due. The next good one ends the finding. */
function backupMissing(result: JobResult, gone: string | null, now: Instant): Found | null {
  const { folder = 'FOLDER' } = result.backups ?? {}
  const lost = gone && `${gone} is gone or empty, and was the newest; are there others?`
  const message = backupFailed(result) ?? lost ?? backupOld(result, now)
  // Named as a folder: where it is gone, a file of its name would be no backup of the job.
  const next = ['tranche', 'backup', folder.replace(/\/*$/, '/')]
  return message === null ? null : { kind: 'backup_missing', subject: 'backup', message, next }
}

function backupFailed({ at, ok, wellAt, message }: JobResult): string | null {
  if (ok) return null
  const newest =
    wellAt === null ? 'none has been made yet' : `the last good one was made at ${formatInstant(wellAt)}`
  return `failed at ${formatInstant(at)} (${message}); ${newest}`
}

function backupOld({ endsAt, wellAt }: JobResult, now: Instant): string | null {
  if (endsAt === null || wellAt === null || now <= endsAt) return null
  return `the newest is of ${formatInstant(wellAt)}, though one is due every day; does its job still run?`
}

/** A service records its certificate regularly: an old record is of a service that has stopped. */
function certificateEnds({ at, host, beginsAt, endsAt, message }: JobResult, now: Instant): Found | null {
  if (beginsAt === null || endsAt === null || now - at > CERTIFICATE_TOLD_MS) return null
  const life = { from: beginsAt, until: endsAt }
  if (!isLeft(CERTIFICATE_OLD_SHARE, life, now)) return null
  const left = endsAt - now
  const words =
    left <= 0
      ? `ended ${formatInstant(endsAt)}: clients refuse it, so no partner gets through`
      : `ends ${formatInstant(endsAt)}: in ${spellSpan(left)}, and no renewed one was read`
  return {
    kind: 'certificate_ends',
    severity: isLeft(CERTIFICATE_ENDS_SHARE, life, now) ? 'page' : 'ticket',
    subject: `certificate of ${host}`,
    message: `${words} (${message})`,
    next: guideTo('operations#tls'),
  }
}

/** Whether less than a share of a life is left. */
export const isLeft = (
  share: number,
  { from, until }: { from: Instant; until: Instant },
  now: Instant,
): boolean => until - now < share * (until - from)

function dueInWords(due: number, oldestAt: Instant, now: Instant): string {
  const age = spellSpan(now - oldestAt)
  return due === 1 ? `1 instruction waits, for ${age}` : `${due} instructions wait, the oldest for ${age}`
}

// The thresholds of the findings, the same for `check`, `status`, the metrics and their alert rules.

/** A partner polls every minute: an instruction that has been due for this long is not being fetched. */
export const DUE_LATE_MS = 15 * MINUTE_MS

/** Every plan fires about once a day, so a partner with plans has something to fetch at least as often. */
export const SILENT_MAX_MS = DAY_MS

/** Fewer failed orders may be the fault of one user. */
export const FAILED_ORDERS_MIN = 3

/** An operator who has gone on without a feed for so long intends to. */
export const FED_FORGOTTEN_MS = 8 * DAY_MS
/** A working feed gives a price at every pass. One that has given none for so long is not asked any more. */
const FED_MAX_MS = DAY_MS

export const ORDERS_SEEN_MS = DAY_MS

/** Disk space is short below this share of the disk, or below the database's growth in a day. */
export const DISK_FREE_MIN = 0.1

/** A feed that none of this many latest passes asked is no longer in use. */
export const FEED_PASSES_SEEN = 10

/** Four times the size at which the write-ahead log is folded into the database. */
export const WAL_LARGE_BYTES = 64 * 2 ** 20

/** Certificates are renewed when a third of their life is left, whether that is of ten days or of a year. */
export const CERTIFICATE_OLD_SHARE = 1 / 3
export const CERTIFICATE_ENDS_SHARE = 1 / 10
/** A service says more often than this which certificate it shows. */
const CERTIFICATE_TOLD_MS = DAY_MS

export const UNSPENT_DAYS = 7

/**
 * A fill made this long before its execution was created cannot belong to it, even if clocks differ. The index
 * `trades_executed_before` (sql/0019_executed_before.sql, sql/postgres/0008_executed_before.sql) has the same number:
 * another one needs a migration.
 */
export const EARLY_FILL_MS = 10 * MINUTE_MS
/** How long fills made too early are shown, and how many of them at most. */
export const EARLY_FILL_DAYS = 30
export const EARLY_FILLS_MAX = 20

/** A key that ends this soon raises a warning, unless its partner has switched to one that lasts longer. */
export const KEY_ENDS_WITHIN_DAYS = 14

/**
 * An execution delivered this often without a confirmation is stuck: its partner polls but never answers. The indexes
 * `executions_stuck` (sql/0011_findings.sql, sql/postgres/0001_start.sql) have the same number: another one needs a
 * migration.
 */
export const STUCK_DELIVERIES = 5

/** Webhook failures in a row after which an operator is warned, before the webhook is paused. */
export const FAILURES_TO_WARN = 5
