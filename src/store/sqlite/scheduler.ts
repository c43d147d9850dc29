import type { Instant } from '../../core/instant.ts'
import type { WakeUp } from '../../core/webhook.ts'
import type { Fired, PassStart, Preview, SchedulerStore } from '../store.ts'
import type { Connection } from './connection.ts'
import { createDueList } from './due.ts'
import type { Ledger } from './ledger.ts'
import { acquireLock } from './lock.ts'
import { createPage } from './page.ts'
import type { PriceBook } from './prices.ts'

const TICK_GAPS_READ = 8
/** Passes kept on record: a week of minutely ones. */
const TICKS_KEPT = 10_080

type Parts = { ledger: Ledger; book: PriceBook; file: string }

export function createSchedulerStore(connection: Connection, { ledger, book, file }: Parts): SchedulerStore {
  const { read, write } = connection
  const sql = prepare(connection)
  const runPage = createPage(connection.db, ledger)

  /** What is known to a pass at `now`, whose own row is the last of the table. */
  function known(now: Instant): Omit<PassStart, 'tickId'> {
    return knownAfter(now, sql.tickTimes.all({ limit: TICK_GAPS_READ + 1 }))
  }

  function knownAfter(now: Instant, latestFirst: readonly bigint[]): Omit<PassStart, 'tickId'> {
    const at = latestFirst.map(Number).reverse()
    const tickGapsMs = at.slice(1).map((t, i) => Math.max(0, t - (at[i] ?? t)))
    return { at: now, price: book.newest(now), volatility: book.volatility(), tickGapsMs }
  }

  return {
    acquireTickLock: () => acquireLock(`${file}-tick`),

    beginPass: (observed) =>
      write((now) => {
        if (observed) book.add(now, observed.price, observed.source)
        const { lastInsertRowid } = sql.addTick.run({ at: now, price: observed?.price ?? null })
        const before = Number(lastInsertRowid) - TICKS_KEPT
        sql.forgetTicks.run({ before })
        sql.forgetEvents.run({ before })
        return { tickId: Number(lastInsertRowid), ...known(now) }
      }),

    peekPass: () =>
      read(() => {
        // With the gap that a pass now would end: it belongs to what decides how early the failsafe begins.
        const now = connection.clock()
        return knownAfter(now, [BigInt(now), ...sql.tickTimes.all({ limit: TICK_GAPS_READ })])
      }),

    listDuePlans: createDueList(connection),

    changeDuePlans: (tickId, planIds, decisions) =>
      write((now) => {
        const { fired, ...counts } = runPage(planIds, decisions, now)
        for (const { tenant, count, earliest } of byTenant(fired)) {
          sql.announce.run({ tick_id: tickId, tenant: tenant.tenantId, count, earliest, now })
        }
        return counts
      }),

    async previewDuePlans(planIds, decisions) {
      // Done for real and then undone: what is shown cannot differ from what would happen.
      const undo = new Undo<Preview[]>()
      await write((now) => {
        const { fired } = runPage(planIds, decisions, now)
        undo.value = fired.map((one) => ({ ...one, partnerPlanId: sql.planName.get(one.planId) ?? '' }))
        throw undo
      }).catch((error) => {
        if (error !== undo) throw error
      })
      return undo.value ?? []
    },

    finishPass: (tickId, counts) =>
      write((now) => {
        sql.finishTick.run({
          tick_id: tickId,
          plans_evaluated: counts.plansEvaluated,
          executions_created: counts.executionsCreated,
          windows_rolled: counts.windowsRolled,
          finished_at: now,
        })
      }),
  }
}

class Undo<T> extends Error {
  value: T | undefined
}

function byTenant(fired: Fired[]): WakeUp[] {
  const wakeUps = new Map<number, WakeUp>()
  for (const { tenant, executionId } of fired) {
    const of = wakeUps.get(tenant.tenantId)
    if (of) of.count += 1
    else wakeUps.set(tenant.tenantId, { tenant, count: 1, earliest: executionId })
  }
  return [...wakeUps.values()]
}

function prepare({ db }: Connection) {
  return {
    planName: db.prepare<[number], string>('select partner_plan_id from plans where plan_id = ?').pluck(),
    addTick: db.prepare('insert into ticks (at, price) values (:at, :price)'),
    forgetTicks: db.prepare('delete from ticks where tick_id <= :before'),
    tickTimes: db.prepare<object, bigint>('select at from ticks order by tick_id desc limit :limit').pluck(),
    // One event for each tenant and pass, however many pages it took; none without an active webhook.
    announce: db.prepare(
      `insert into webhook_events (tick_id, tenant_id, count, earliest_execution_id, created_at)
       select :tick_id, tenant_id, :count, :earliest, :now from webhooks
       where tenant_id = :tenant and status = 'active'
       on conflict do update set count = count + excluded.count`,
    ),
    forgetEvents: db.prepare('delete from webhook_events where tick_id <= :before'),
    finishTick: db.prepare(
      `update ticks set plans_evaluated = :plans_evaluated, executions_created = :executions_created,
         windows_rolled = :windows_rolled, finished_at = :finished_at
       where tick_id = :tick_id`,
    ),
  }
}
