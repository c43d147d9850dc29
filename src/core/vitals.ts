// Vitals: the facts about a running service from which its findings follow. All of them are cheap to read.

import type { Dispute, LostWrites, Restored, SchedulerFacts } from './clock.ts'
import type { ExecutionId } from './execution.ts'
import type { Price, Usd } from './money.ts'
import type { PartnerStatus, Tenant } from './partner.ts'
import type { Instant } from './time.ts'

/** The feed that the latest passes asked. */
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
  /** Instructions that a poll would hand out, and when the oldest of them was created. */
  due: number
  oldestDueAt: Instant | null
  /** Instructions that were delivered again and again. */
  stuck: { count: number; first: ExecutionId } | null
  /**
   * Confirmations of the last 24 hours: fills and failures; and whether the newest few, of whatever day, all failed.
   */
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

/** A recorded or late fill that is dated before its execution was created. */
export type EarlyFill = {
  tenant: Tenant
  executionId: ExecutionId
  executedAt: Instant
  createdAt: Instant
}

export type DiskVitals = {
  folder: string
  freeBytes: number
  /** The space that is free or in use, without what is reserved for root. */
  totalBytes: number
  /** The database's growth in the last day, or since its first pass. */
  dayGrowthBytes: number
}

/**
 * What a job beside the scheduler came to when it ended last, and when it last went well. A host is named where each
 * has a job of its own. A service counts as a job with the certificate that it shows.
 */
export type JobResult = {
  job: 'check' | 'backup' | 'certificate'
  host: string
  at: Instant
  ok: boolean
  wellAt: Instant | null
  /** When a certificate ends, and by when the next check is due; null for a job that nobody has planned. */
  endsAt: Instant | null
  /** What was found or went wrong, or what the certificate is for. */
  message: string
}

/** `page`: money that should move does not, or soon will not. `ticket`: it can wait until the morning. */
export type Severity = 'page' | 'ticket'

export type Finding = {
  /** The code, which never changes. */
  kind: string
  severity: Severity
  /** The tenant it is about; null for a finding about the whole service. */
  tenant: Tenant | null
  subject: string
  message: string
  /**
   * The command to run next, word by word; `tranche` as the first word stands for the program, however it is called.
   */
  next: readonly string[]
}

type SealVitals = { at: Instant; movedTo: string }

export type Vitals = {
  scheduler: SchedulerFacts
  dispute: Dispute | null
  /** Since when the database takes no more writes, and where it moved to. */
  seal: SealVitals | null
  /** Since when the database stands still because it was put back from a copy. */
  restored: Restored | null
  /** Answered writes that the server has lost, and that nobody has decided on. */
  lost: LostWrites | null
  feed: FeedVitals | null
  price: { price: Price; at: Instant; source: string } | null
  partners: PartnerVitals[]
  unspent: UnspentWindows[]
  /** The newest first. */
  earlyFills: EarlyFill[]
  results: JobResult[]
  /** What the looks have found that say it in words of their own. */
  also: Finding[]
  /** Null for a database in memory, and on a server, whose disk is not visible from here. */
  disk: DiskVitals | null
}
