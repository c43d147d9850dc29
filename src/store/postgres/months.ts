// Sets the bound below which nothing is dated any more once a month has been reported: behind the gate
// (../server/month-gate.ts), alone.

import { type FixedPeriod, isConfirmed, overPeriod, type Period, runningPeriod } from '../../core/month.ts'
import type { Caller, Tenant } from '../../core/partner.ts'
import { Problem } from '../../core/problem.ts'
import { type Instant, later } from '../../core/time.ts'
import { withDigest } from '../digests.ts'
import {
  activityReader,
  CLOSE_MONTH,
  closingParams,
  FIRST_PARTNER,
  IS_CLOSED,
  NEWEST_CHANGE,
  NEWEST_FINISHED_PASS,
  REPORT_SANDBOX_UNTIL,
  REPORT_UNTIL,
  readMonths,
  tradeLines,
} from '../months.ts'
import { instantOrNull } from '../reader.ts'
import { latestRecordedAt } from '../shared/executions.ts'
import type { MonthStore } from '../store.ts'
import { callOf } from '../transaction.ts'
import { within } from './driver.ts'
import { type Connection, type Errand, queryOf, readerOf, type WriteTx } from './server/connection.ts'
import type { Scope } from './server/month-gate.ts'
import type { Tx } from './server/pipeline.ts'
import { query } from './server/statement.ts'
import { isSandbox, timeOf } from './tenant-time.ts'

const CLOSED = queryOf(IS_CLOSED)
const CLOSE = queryOf(CLOSE_MONTH)
const FIRST = queryOf(FIRST_PARTNER)
const REPORTED = queryOf(REPORT_UNTIL)
const REPORTED_OF = queryOf(REPORT_SANDBOX_UNTIL)

/**
 * The longest that a partner's call keeps others from writing when it closes a month while somebody's write is under
 * way.
 */
const CALL_WAITS_MS = 250
/** How long no partner's call tries again after one has waited for nothing. */
const TRY_AGAIN_MS = 15_000

/** On whose behalf a month is fixed; empty for an operator. */
type ForCall = Pick<Scope, 'key'> & Errand

export function createMonthStore(connection: Connection): MonthStore {
  const { read, write, clock } = connection
  const reader = readerOf(connection, { reads: 'large' })
  const closeInTurn = createTurn()
  let triesFrom = Number.NEGATIVE_INFINITY

  /** Fixes it once no other write of the tenant is under way; null if the month is over for everybody by then. */
  const fixAlone = (period: Period, { tenantId }: Tenant, errand: ForCall): Promise<FixedPeriod | null> =>
    write(
      async (tx) => {
        const times = await tx.times
        if (await isSandbox(tx, tenantId))
          return fix(tx, period, { now: times.of(tenantId), sandbox: tenantId })
        return times.real < period.end ? fix(tx, period, { now: times.real, sandbox: null }) : null
      },
      { tenants: [tenantId], alone: 'tenants', ...errand },
    )

  /** Fixes it for everybody, once no other write at all is under way. */
  const fixForAll = (period: Period, scope: ForCall & { waitsMs?: number } = {}): Promise<FixedPeriod> =>
    write(async (tx) => fix(tx, period, { now: (await tx.times).real, sandbox: null }), {
      alone: 'all',
      ...scope,
    })

  /** What can be known without a lock: whether it is closed, cannot be closed, or so far concerns its tenant alone. */
  const glance = (
    period: Period,
    tenant: Tenant | null,
    errand: ForCall,
  ): Promise<'closed' | 'own' | 'unconfirmed' | 'common'> =>
    read(async (tx) => {
      const [closed, now] = await Promise.all([tx.get(CLOSED, { month: period.month }), clock.present(tx)])
      if (closed?.closed === 1n) return 'closed'
      if (tenant && (now < period.end || (await isSandbox(tx, tenant.tenantId)))) return 'own'
      return now < period.end || isConfirmed(period, await reached(tx, null)) ? 'common' : 'unconfirmed'
    }, errand)

  /**
   * One at a time, because the first one closes the month for all, and only for a moment: a call that waits for the
   * gate of all keeps every other write waiting behind it, on every host, for as long as a hanging host holds the gate.
   */
  const closeForCall = (period: Period, tenant: Tenant, errand: ForCall): Promise<FixedPeriod> =>
    closeInTurn(async () => {
      const kind = await glance(period, tenant, errand)
      if (kind === 'closed') return { ...period, final: true }
      if (kind !== 'common' || performance.now() < triesFrom) return { ...period, final: false }
      try {
        return await fixForAll(period, { ...errand, waitsMs: CALL_WAITS_MS })
      } catch (error) {
        if (!(error instanceof Problem && error.code === 'database_locked')) throw error
        triesFrom = performance.now() + TRY_AGAIN_MS
        return { ...period, final: false }
      }
    })

  async function fixed(
    period: Period,
    tenant: Tenant | null,
    { errand, forAll }: { errand: ForCall; forAll: () => Promise<FixedPeriod> },
  ): Promise<FixedPeriod> {
    const kind = await glance(period, tenant, errand)
    if (kind === 'closed') return { ...period, final: true }
    if (kind === 'unconfirmed') return { ...period, final: false }
    // A partner that asks for its running month, as it may at any time, holds up no other partner's writes.
    return (kind === 'own' && tenant && (await fixAlone(period, tenant, errand))) || forAll()
  }

  return {
    fixPeriod: (period, tenant = null) =>
      fixed(period, tenant, { errand: {}, forAll: () => fixForAll(period) }),

    fixTenantPeriod: (tenant: Caller, period) => {
      const errand = { caller: tenant.tenantId, key: tenant.keyId }
      return fixed(period, tenant, { errand, forAll: () => closeForCall(period, tenant, errand) })
    },

    ...readMonths(reader),

    readActivity: (tenant, ...which) =>
      activityReader(readerOf(connection, callOf(tenant)))(tenant, ...which),

    readTenantLines: (tenant, ...which) =>
      tradeLines(readerOf(connection, callOf(tenant))).readTenantLines(tenant, ...which),
  }
}

/** Runs one after the other. */
function createTurn(): <T>(work: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve()
  return (work) => {
    const mine = last.then(work)
    last = mine.catch(() => {})
    return mine
  }
}

/** A sandbox closes its months only for itself: its time may be ahead of everybody else's. */
async function fix(
  tx: WriteTx,
  period: Period,
  { now, sandbox }: { now: Instant; sandbox: number | null },
): Promise<FixedPeriod> {
  const {
    fixed,
    reportedUntil: at,
    closes,
  } = now >= period.end
    ? overPeriod(period, { now, reached: await reached(tx, sandbox) }, await firstOf(tx, sandbox))
    : {
        ...runningPeriod(period, now, await within(tx, (steps) => latestRecordedAt(steps, sandbox))),
        closes: null,
      }
  const writes: Promise<unknown>[] = []
  if (closes && sandbox === null) writes.push(tx.run(CLOSE, closingParams(closes, now)))
  if (at !== null)
    writes.push(
      sandbox === null
        ? tx.run(REPORTED, withDigest('reported_until', { at }))
        : tx.run(REPORTED_OF, { at, tenant: sandbox }),
    )
  await Promise.all(writes)
  return fixed
}

const firstOf = async (tx: WriteTx, sandbox: number | null): Promise<Instant | null> =>
  sandbox === null ? instantOrNull((await tx.get(FIRST))?.at ?? null) : null

// What confirms that a month is over: how far time has come according to what was recorded, whatever the clock shows. A
// report alone closes no month.

const NEVER = 0 as Instant
const DISPUTED = query<{ one: bigint }>('select one from clock_disputes')
const PASS = queryOf(NEWEST_FINISHED_PASS)
const CHANGE = queryOf(NEWEST_CHANGE)

/**
 * The instant of the newest pass, trade, adjustment or change by an operator, in the time of a sandbox or the real one;
 * nothing counts while the clock is in doubt.
 */
async function reached(tx: Tx, sandbox: number | null): Promise<Instant> {
  const [disputed, pass, change] = await Promise.all([tx.get(DISPUTED), tx.get(PASS), tx.get(CHANGE)])
  if (disputed) return NEVER
  const noted = later(at(pass), at(change))
  if (sandbox !== null) return timeOf(tx, sandbox, noted)
  return later(noted, (await within(tx, (steps) => latestRecordedAt(steps, null))) ?? NEVER)
}

const at = (row: { at: bigint } | undefined): Instant => instantOrNull(row?.at ?? null) ?? NEVER
