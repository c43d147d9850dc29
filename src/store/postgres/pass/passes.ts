// Passes: recorded, shared out in pages, and deleted after a week; and what a pass would do now.

import { PASS_GAPS_SEEN } from '../../../core/failsafe-start.ts'
import { FAILURE_MAX, gapsMs, PASSES_KEPT } from '../../pass-history.ts'
import type { PassStart, PassStore, Preview } from '../../passes.ts'
import { instant } from '../../rows/instant.ts'
import { createFollowing } from '../accounts/apply-partner-to-schedules.ts'
import type { Connection } from '../server/connection.ts'
import { isOutage } from '../server/error-kinds.ts'
import type { Tx } from '../server/pipeline.ts'
import { query } from '../server/statement.ts'
import { onceMore } from '../server/try-again.ts'
import { claimPage, fillPages, listDuePlans } from './due-plans.ts'
import { joinPass, type TickRow } from './join-pass.ts'
import { PAGE_PLANS, runPage } from './plan-page.ts'
import { book } from './price-book.ts'
import { writeWakeUps } from './wake-ups.ts'

const BEGIN = query<TickRow>(
  `insert into ticks (at, price, feed, feed_failure, database_bytes)
   values (:at, :price, :feed, :feed_failure, pg_database_size(current_database())) returning tick_id, at`,
)
const FORGET_PASSES = query('delete from ticks where tick_id <= :before')
const FORGET_EVENTS = query('delete from webhook_events where tick_id <= :before')
const TIMES = query<{ at: bigint }>(
  `select at from ticks where tick_id <= coalesce(:tick_id::bigint, tick_id) order by tick_id desc limit :limit`,
)
const TENANTS = query<{ tenant_id: bigint }>(
  'select distinct tenant_id from plans where plan_id = any(:plan_ids::bigint[])',
)
const NAMES = query<{ plan_id: bigint; partner_plan_id: string }>(
  'select plan_id, partner_plan_id from plans where plan_id = any(:plan_ids::bigint[])',
)

const STOPS = { stopsWhenLost: true }

/** What all hands of a pass know. */
async function knownOf(tx: Tx, tick: TickRow): Promise<PassStart> {
  const at = instant(tick.at)
  const [times, price, volatility] = await Promise.all([
    tx.all(TIMES, { tick_id: tick.tick_id, limit: PASS_GAPS_SEEN + 1 }),
    book.newest(tx, at),
    book.volatility(tx),
  ])
  return {
    passId: Number(tick.tick_id),
    at,
    price,
    volatility,
    passGapsMs: gapsMs(times.map(({ at }) => at)),
  }
}

export function createPassStore(connection: Connection): PassStore {
  const { clock, look, read, write } = connection
  const following = createFollowing(connection)

  const tenantsOf = async (planIds: readonly number[]): Promise<number[]> => {
    const rows = await look((tx) => tx.all(TENANTS, { plan_ids: planIds }))
    return rows.map(({ tenant_id }) => Number(tenant_id))
  }

  return {
    joinPass: () => joinPass(connection, knownOf),

    async beginPass(observed, asked = null) {
      await following.finishLeft()
      return write(async (tx) => {
        const { real } = await tx.times
        if (observed) await book.add(tx, real, observed)
        const tick = await tx.get(BEGIN, {
          at: real,
          price: observed?.price ?? null,
          feed: asked?.name ?? null,
          feed_failure: asked?.failure?.slice(0, FAILURE_MAX) ?? null,
        })
        if (!tick) throw new Error('a pass was noted without a number')
        const before = Number(tick.tick_id) - PASSES_KEPT
        const [known] = await Promise.all([
          knownOf(tx, tick),
          tx.run(FORGET_PASSES, { before }),
          tx.run(FORGET_EVENTS, { before }),
        ])
        return known
      }, STOPS)
    },

    peekPass: () =>
      read(async (tx) => {
        // Includes the gap that a pass at this moment would end: it helps decide how early the failsafe begins.
        const at = await clock.now(tx)
        const [times, price, volatility] = await Promise.all([
          tx.all(TIMES, { tick_id: null, limit: PASS_GAPS_SEEN }),
          book.newest(tx, at),
          book.volatility(tx),
        ])
        return { at, price, volatility, passGapsMs: gapsMs([at, ...times.map(({ at }) => at)]) }
      }),

    listDuePlans: (due) => listDuePlans(connection, due),

    async *duePages(passId, due, pageMax) {
      if (due) await fillPages(connection, passId, due, Math.min(pageMax, PAGE_PLANS))
      for (;;) {
        const page = await claimPage(connection, passId)
        if (!page) return
        yield page
      }
    },

    async changeDuePlans(passId, planIds, decisions) {
      const tenants = await tenantsOf(planIds)
      // If another hand has created the same id at the same moment, new ones are drawn.
      return onceMore(() =>
        write(
          async (tx) => {
            const { fired, written, ...counts } = await runPage(tx, planIds, decisions, tx.times)
            tx.unwaited(writeWakeUps(tx, passId, fired, (await tx.times).real))
            return counts
          },
          { tenants, stopsWhenLost: true },
        ),
      )
    },

    async previewDuePlans(planIds, decisions) {
      // Done for real and then undone, so that what is shown cannot differ from what would happen.
      const undo = new Undo<Preview[]>()
      const tenants = await tenantsOf(planIds)
      const work = write(
        async (tx) => {
          const { fired, written } = await runPage(tx, planIds, decisions, tx.times)
          const [names] = await Promise.all([tx.all(NAMES, { plan_ids: planIds }), written])
          const nameOf = new Map(names.map((row) => [Number(row.plan_id), row.partner_plan_id]))
          undo.value = fired.map((one) => ({ ...one, partnerPlanId: nameOf.get(one.planId) ?? '' }))
          throw undo
        },
        { tenants, stopsWhenLost: true },
      )
      await work.catch((error) => {
        if (error !== undo) throw error
      })
      return undo.value ?? []
    },

    isOutage,
  }
}

class Undo<T> extends Error {
  value: T | undefined
}
