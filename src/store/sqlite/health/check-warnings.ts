// What is not wrong and may become so: keys that end, ticks that stopped, partners that do not answer, files that are
// open to others. The check reports it beside the faults of the ledger.

import { statSync } from 'node:fs'
import { UNSPENT_DAYS, WAL_LARGE_BYTES } from '../../../core/alarms.ts'
import { counted } from '../../../core/counted.ts'
import { STUCK_DELIVERIES } from '../../../core/execution.ts'
import { DAY_MS, formatInstant, type Instant, plus } from '../../../core/instant.ts'
import { formatUsd, type Usd } from '../../../core/money.ts'
import { Problem } from '../../../core/problem.ts'
import { latenessInWords, schedulerLateness } from '../../../core/scheduler-lateness.ts'
import { FAILURES_TO_PAUSE, FAILURES_TO_WARN } from '../../../core/webhook.ts'
import type { CheckStore, Finding } from '../../check.ts'
import { instant } from '../../rows/instant.ts'
import { ENDED_UNSPENT, IN_REAL_TIME, IS_STUCK, TENANT_NAME } from '../expressions.ts'
import type { Connection, Database } from '../file/connection.ts'
import { isCorrupt } from '../file/errors.ts'
import { lockFile, realName, walBytes, walFile } from '../file/own-files.ts'
import { acquireLock } from '../file/process-lock.ts'
import { mispricedTrades, undecidedLateFills } from './check-trade-warnings.ts'
import { clockLooks } from './clock-warnings.ts'
import { createSchedulerReader } from './scheduler.ts'

const KEY_ENDS_WITHIN_DAYS = 14
const MIB = 2 ** 20

// Most looks pass over sandboxes: they are led through their time on purpose, and what a developer leaves undone there
// is nobody's alarm.
type Look = (now: Instant) => Finding[]

export function createWarnings(connection: Connection): CheckStore['findWarnings'] {
  const { db, read, clock } = connection
  const looks: Look[] = [
    ...[keysThatEnd, stuckExecutions, failingWebhooks, unspentWindows].map((look) => look(db)),
    undecidedLateFills(db),
    mispricedTrades(db),
    ...clockLooks(db),
    ...(db.memory ? [] : [largeLog(db), openFiles(db), leftImport(db)]),
  ]
  const findLateScheduler = createLateScheduler(connection)
  const findOthers = () =>
    read(() => {
      // The first statement fixes what is seen; the clock is read after it, or what was just written lies ahead of it.
      db.prepare('select 1 from migrations').get()
      const now = clock()
      return looks.flatMap((look) => unlessDamaged(() => look(now)))
    })
  return async () => [
    ...(await findLateScheduler().catch(noneIfDamaged)),
    ...(await findOthers().catch(noneIfDamaged)),
  ]
}

function unlessDamaged(look: () => Finding[]): Finding[] {
  try {
    return look()
  } catch (error) {
    return noneIfDamaged(error)
  }
}

/** What cannot be read is a fault, and the check has said so by then. */
function noneIfDamaged(error: unknown): Finding[] {
  if (isCorrupt(error) || (error instanceof Problem && error.code === 'database_damaged')) return []
  throw error
}

/** Reads in pages, unlike the other looks, and so has reads of its own. */
function createLateScheduler(connection: Connection): () => Promise<Finding[]> {
  const readScheduler = createSchedulerReader(connection)
  return async () => {
    const seen = await readScheduler()
    const now = connection.clock()
    const { isLate, usualGapMs } = schedulerLateness(seen, now)
    if (!isLate) return []
    return [{ kind: 'ticks_stopped', subject: 'scheduler', message: latenessInWords(seen, now, usualGapMs) }]
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

function stuckExecutions(db: Database): Look {
  const sql = db.prepare<[], { place: string; n: bigint; first: string }>(
    `select ${TENANT_NAME} as place, count(*) as n, min(e.execution_id) as first
     from executions e join tenants t using (tenant_id)
     where ${IS_STUCK} and ${IN_REAL_TIME} group by tenant_id order by tenant_id`,
  )
  return () =>
    sql.all().map(({ place, n, first }) => ({
      kind: 'executions_stuck',
      subject: place,
      message: `${n} delivered ${STUCK_DELIVERIES} times or more and never confirmed, the oldest ${first}`,
    }))
}

function failingWebhooks(db: Database): Look {
  type Row = { place: string; paused: 0n | 1n; failures: bigint; reason: string | null; last: bigint | null }
  const sql = db.prepare<object, Row>(
    `select ${TENANT_NAME} as place, w.status = 'paused' as paused, w.consecutive_failures as failures,
       w.last_failure_reason as reason, w.last_delivered_at as last
     from webhooks w join tenants t using (tenant_id)
     where w.status = 'paused' or w.consecutive_failures >= :warn order by tenant_id`,
  )
  return () =>
    sql.all({ warn: FAILURES_TO_WARN }).map(({ place, paused, failures, reason, last }) => {
      const when = last === null ? 'never' : formatInstant(instant(last))
      const why = reason === null ? '' : ` (the last: ${reason})`
      const often = `${failures} failures in a row${why}, last delivered ${when}`
      return paused
        ? {
            kind: 'webhook_paused',
            subject: place,
            message: `paused after ${often}; its partner registers again, or \`webhook resume\` lifts the pause`,
          }
        : {
            kind: 'webhook_failing',
            subject: place,
            message: `${often}; it is paused after ${FAILURES_TO_PAUSE}`,
          }
    })
}

/** One finding for each tenant, under the name of the plan that left the most. */
function unspentWindows(db: Database): Look {
  type Row = { place: string; plan: string; n: bigint; released: bigint; most: bigint }
  const sql = db.prepare<object, Row>(
    `select ${TENANT_NAME} as place, p.partner_plan_id as plan, sum(x.n) as n,
       sum(x.released) as released, max(x.released) as most
     from (select plan_id, count(*) as n, sum(released) as released from windows w
       where ${ENDED_UNSPENT} group by plan_id) x
     join plans p using (plan_id) join tenants t using (tenant_id) where ${IN_REAL_TIME}
     group by tenant_id order by tenant_id`,
  )
  return (now) =>
    sql.all({ since: plus(now, -UNSPENT_DAYS * DAY_MS) }).map(({ place, plan, n, released, most }) => ({
      kind: 'windows_unspent',
      subject: `${place} plan ${plan}`,
      message: `${formatUsd(most as Usd)} USD of this plan were not spent; in all ${counted(Number(n), 'window')} of ${place} ended with ${formatUsd(released as Usd)} USD left in ${UNSPENT_DAYS} days`,
    }))
}

function largeLog(db: Database): Look {
  return () => {
    const bytes = walBytes(db.name)
    if (bytes <= WAL_LARGE_BYTES) return []
    const message = `has ${Math.round(bytes / MIB)} MiB: a process that reads without end keeps it from being folded in`
    return [{ kind: 'wal_large', subject: walFile(db.name), message }]
  }
}

function openFiles(db: Database): Look {
  return () =>
    ['', '-wal', '-shm'].flatMap((suffix) => {
      const file = realName(db.name) + suffix
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
    const message = `${counted(Number(rows), 'row')} of an import that was cut off; none of them counts, and the next import clears them`
    return [{ kind: 'import_left', subject: 'price import', message }]
  }
}
