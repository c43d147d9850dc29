// What is not wrong and may become so: keys that end, ticks that stopped, partners that do not answer, files that are
// open to others. The check reports it beside the faults of the ledger.

import { realpathSync, statSync } from 'node:fs'
import { DAY_MS, formatInstant, type Instant, MINUTE_MS, plus } from '../../../core/instant.ts'
import { formatUsd, type Usd } from '../../../core/money.ts'
import { spellSpan } from '../../../core/span.ts'
import type { CheckStore, Finding } from '../../check.ts'
import { STUCK_DELIVERIES } from '../../executions.ts'
import { instant, instantOrNull } from '../../rows/instant.ts'
import { IN_REAL_TIME, IS_OPEN, TENANT_NAME } from '../expressions.ts'
import type { Connection, Database } from '../file/connection.ts'
import { isCorrupt } from '../file/errors.ts'
import { acquireLock } from '../file/lock.ts'
import { lockFile } from '../file/own-files.ts'
import { mispricedTrades, undecidedLateFills } from './trade-warnings.ts'

const KEY_ENDS_WITHIN_DAYS = 14
const UNSPENT_WITHIN_DAYS = 7
/** A scheduler is late once it has missed this many of its usual gaps, and never before the shortest time below. */
const GAPS_MISSED = 5
const GAPS_READ = 9
const PASS_LATE_MIN_MS = 10 * MINUTE_MS
/** Four times the size at which the log is folded into the database. */
const WAL_BYTES_MAX = 64 * 2 ** 20
const MIB = 2 ** 20

// Most looks pass over sandboxes: they are led through their time on purpose, and what a developer leaves undone there
// is nobody's alarm.
type Look = (now: Instant) => Finding[]

export function createWarnings({ db, read, clock }: Connection): CheckStore['findWarnings'] {
  const looks: Look[] = [
    ...[keysThatEnd, latePasses, stuckExecutions, pausedWebhooks, unspentWindows].map((look) => look(db)),
    undecidedLateFills(db),
    mispricedTrades(db),
    clockSetBack(db),
    ...(db.memory ? [] : [largeLog(db), openFiles(db), leftImport(db)]),
  ]
  return () =>
    read(() => {
      // The first statement fixes what is seen; the clock is read after it, or what was just written lies ahead of it.
      db.prepare('select 1 from migrations').get()
      const now = clock()
      return looks.flatMap((look) => unlessDamaged(() => look(now)))
    })
}

/** What cannot be read is a fault, and the check has said so by then. */
function unlessDamaged(look: () => Finding[]): Finding[] {
  try {
    return look()
  } catch (error) {
    if (!isCorrupt(error)) throw error
    return []
  }
}

/** A key is left alone once its partner has gone over to one that lasts longer. */
function keysThatEnd(db: Database): Look {
  const sql = db.prepare<object, { place: string; key_id: string; expires_at: bigint; last: bigint | null }>(
    `select ${TENANT_NAME} as place, k.key_id, k.expires_at, k.last_used_at as last
     from api_keys k join tenants t using (tenant_id) join partners p using (partner_slug)
     where k.revoked_at is null and k.expires_at > :now and k.expires_at <= :soon and p.status = 'active'
       and not exists (
         select 1 from api_keys n where n.tenant_id = k.tenant_id and n.revoked_at is null
           and (n.expires_at is null or n.expires_at > :soon) and n.last_used_at >= coalesce(k.last_used_at, 0))
     order by k.expires_at, k.key_id`,
  )
  return (now) =>
    sql
      .all({ now, soon: plus(now, KEY_ENDS_WITHIN_DAYS * DAY_MS) })
      .map(({ place, key_id, expires_at, last }) => {
        const used = last === null ? 'it was never used' : `it was last used ${formatInstant(instant(last))}`
        const message = `ends ${formatInstant(instant(expires_at))}, and no longer one has taken its place; ${used}`
        return { kind: 'key_ends', subject: `${place} key ${key_id}`, message }
      })
}

function latePasses(db: Database): Look {
  const state = db.prepare<[], { finished: bigint | null; oldest: bigint | null }>(
    `select (select max(at) from ticks where finished_at is not null) as finished,
       (select min(p.created_at) from schedules s join plans p using (plan_id)
         where s.awake = 1 and ${IN_REAL_TIME}) as oldest`,
  )
  const times = db.prepare<[number], bigint>('select at from ticks order by tick_id desc limit ?').pluck()
  return (now) => {
    const { finished = null, oldest = null } = state.get() ?? {}
    if (oldest === null) return []
    const at = times.all(GAPS_READ).map(Number)
    const gaps = at.slice(1).map((t, i) => (at[i] ?? t) - t)
    const usual = gaps.sort((a, b) => a - b)[gaps.length >> 1] ?? 0
    const since = now - Number(finished ?? oldest)
    if (since <= Math.max(PASS_LATE_MIN_MS, GAPS_MISSED * usual)) return []
    const last = instantOrNull(finished)
    const message =
      last === null
        ? `no pass has ever finished, and plans have been waiting for ${spellSpan(since)}`
        : `the last pass that finished began ${formatInstant(last)}, ${spellSpan(since)} ago; ${spellSpan(usual)} is usual`
    return [{ kind: 'ticks_stopped', subject: 'scheduler', message }]
  }
}

function stuckExecutions(db: Database): Look {
  const sql = db.prepare<[number], { place: string; n: bigint; first: string }>(
    `select ${TENANT_NAME} as place, count(*) as n, min(e.execution_id) as first
     from executions e join tenants t using (tenant_id)
     where ${IS_OPEN} and e.delivered_count >= ? and ${IN_REAL_TIME} group by tenant_id order by tenant_id`,
  )
  return () =>
    sql.all(STUCK_DELIVERIES).map(({ place, n, first }) => ({
      kind: 'executions_stuck',
      subject: place,
      message: `${n} delivered ${STUCK_DELIVERIES} times or more and never confirmed, the oldest ${first}`,
    }))
}

function pausedWebhooks(db: Database): Look {
  const sql = db.prepare<[], { place: string; failures: bigint; last: bigint | null }>(
    `select ${TENANT_NAME} as place, w.consecutive_failures as failures,
       w.last_delivered_at as last
     from webhooks w join tenants t using (tenant_id) where w.status = 'paused' order by tenant_id`,
  )
  return () =>
    sql.all().map(({ place, failures, last }) => {
      const when = last === null ? 'never' : formatInstant(instant(last))
      const message = `paused after ${failures} failures in a row, last delivered ${when}; its partner has to register again`
      return { kind: 'webhook_paused', subject: place, message }
    })
}

/** One finding for each tenant, under the name of the plan that left the most. */
function unspentWindows(db: Database): Look {
  type Row = { place: string; plan: string; n: bigint; released: bigint; most: bigint }
  const sql = db.prepare<object, Row>(
    `select ${TENANT_NAME} as place, p.partner_plan_id as plan, sum(x.n) as n,
       sum(x.released) as released, max(x.released) as most
     from (select plan_id, count(*) as n, sum(released) as released from windows
       where close_reason = 'ended' and released > 0 and closed_at >= :since group by plan_id) x
     join plans p using (plan_id) join tenants t using (tenant_id) where ${IN_REAL_TIME}
     group by tenant_id order by tenant_id`,
  )
  return (now) =>
    sql
      .all({ since: plus(now, -UNSPENT_WITHIN_DAYS * DAY_MS) })
      .map(({ place, plan, n, released, most }) => ({
        kind: 'windows_unspent',
        subject: `${place} plan ${plan}`,
        message: `${formatUsd(most as Usd)} USD of this plan were not spent; in all ${n} windows of ${place} ended with ${formatUsd(released as Usd)} USD left in ${UNSPENT_WITHIN_DAYS} days`,
      }))
}

/** Only live business counts: a test environment may be led through time faster than the clock. */
function clockSetBack(db: Database): Look {
  const sql = db
    .prepare<[], bigint | null>(
      `select max(at) from (
         select max(at) as at from ticks union all select max(at) from audit
         union all select max(at) from reported_until
         union all select (select max(created_at) from executions e where e.tenant_id = t.tenant_id)
           from tenants t where environment = 'live'
         union all select (select max(recorded_at) from trades d where d.tenant_id = t.tenant_id)
           from tenants t where environment = 'live')`,
    )
    .pluck()
  return (now) => {
    const latest = instantOrNull(sql.get() ?? null)
    if (latest === null || latest <= now) return []
    const message = `shows ${formatInstant(now)}, but the database holds records of ${formatInstant(latest)}, ${spellSpan(latest - now)} later`
    return [{ kind: 'clock_back', subject: 'clock', message }]
  }
}

function largeLog(db: Database): Look {
  return () => {
    const file = `${realpathSync(db.name)}-wal`
    const bytes = statSync(file, { throwIfNoEntry: false })?.size ?? 0
    if (bytes <= WAL_BYTES_MAX) return []
    const message = `has ${Math.round(bytes / MIB)} MiB: a process that reads without end keeps it from being folded in`
    return [{ kind: 'wal_large', subject: file, message }]
  }
}

function openFiles(db: Database): Look {
  return () =>
    ['', '-wal', '-shm'].flatMap((suffix) => {
      const file = realpathSync(db.name) + suffix
      const mode = (statSync(file, { throwIfNoEntry: false })?.mode ?? 0) & 0o777
      if ((mode & 0o077) === 0) return []
      const message = `has mode 0${mode.toString(8)}: others on this machine can get at it, and it holds webhook secrets`
      return [{ kind: 'file_open', subject: file, message }]
    })
}

function leftImport(db: Database): Look {
  const sql = db.prepare<[], bigint>('select count(*) from price_imports').pluck()
  return () => {
    const rows = sql.get() ?? 0n
    if (rows === 0n) return []
    const release = acquireLock(lockFile(db.name, 'import'))
    // Somebody is at it.
    if (!release) return []
    release()
    const message = `${rows} rows of an import that was cut off; none of them counts, and the next import clears them`
    return [{ kind: 'import_left', subject: 'price import', message }]
  }
}
