// The hands of a pass. Each holds a shared lock in a session of its own. Only one hand at a time may join or leave, so
// that it is certain which was first and which is last. A hand that dies leaves with its session.

import type { PassCounts, PassHand, PassStart } from '../../passes.ts'
import { PRESENT_SQL } from '../server/clock.ts'
import { commit } from '../server/commit.ts'
import type { Connection, Session } from '../server/connection.ts'
import { explained } from '../server/error-words.ts'
import { LOCK } from '../server/locks.ts'
import { firstError, type Pipeline, pipelineOn, type Tx } from '../server/pipeline.ts'
import { query } from '../server/statement.ts'
import { PATIENCE } from '../server/timeouts.ts'

export type TickRow = { tick_id: bigint; at: bigint }

const DOOR = query(`select pg_advisory_xact_lock(${LOCK.passDoor}, 0)`)
/** True when nobody else holds the lock of a pass; nobody can then take it before the end of the transaction. */
const IS_ALONE = `pg_try_advisory_xact_lock(${LOCK.pass}, 0)`
const ALONE = query<{ alone: boolean }>(`select ${IS_ALONE} as alone`)
const ENTER = query(`select pg_advisory_lock_shared(${LOCK.pass}, 0)`)
const LEAVE = query<{ held: boolean }>(`select pg_advisory_unlock_shared(${LOCK.pass}, 0) as held`)
const FORGET_PAGES = query('delete from pass_pages')
// The list always belongs to the present hands' pass: the first of them has removed any other. A pass that has nothing
// left to do, or whose list is not ready yet, has no use for another hand.
const LISTED = query<TickRow>(
  `select tick_id, at from ticks
   where tick_id = (select max(tick_id) from pass_pages) and finished_at is null`,
)
type CountsRow = { plans_evaluated: bigint; executions_created: bigint; windows_rolled: bigint }
const FINISH = query<CountsRow & { finished_at: bigint | null }>(
  `update ticks set plans_evaluated = plans_evaluated + :plans_evaluated,
     executions_created = executions_created + :executions_created,
     windows_rolled = windows_rolled + :windows_rolled,
     finished_at = case when ${IS_ALONE} then ${PRESENT_SQL} end
   where tick_id = :tick_id returning *`,
)

/** Joins the running pass, or begins one; null when the running pass has no use for another hand. */
export async function joinPass(
  connection: Connection,
  known: (tx: Tx, tick: TickRow) => Promise<PassStart>,
): Promise<PassHand | null> {
  const session = await connection.session()
  const seen = await atTheDoor(session, connection, async (tx) => {
    const first = (await tx.get(ALONE))?.alone
    if (first) {
      await Promise.all([tx.run(ENTER), tx.run(FORGET_PAGES)])
      return { joined: null }
    }
    const tick = await tx.get(LISTED)
    if (!tick) return null
    const [, joined] = await Promise.all([tx.run(ENTER), known(tx, tick)])
    return { joined }
  })
  if (!seen) {
    session.giveBack()
    return null
  }
  return { ...seen, ...partOf(session, connection) }
}

/** How a hand leaves. Its session is given back, or ended when it is unknown whether it still holds the lock. */
function partOf(session: Session, connection: Connection): Pick<PassHand, 'finish' | 'leave'> {
  let isIn = true
  return {
    async finish(passId, counts) {
      isIn = false
      const row = await atTheDoor(session, connection, async (tx) => {
        const [left, row] = await Promise.all([
          tx.get(LEAVE),
          tx.get(FINISH, { tick_id: passId, ...countsParams(counts), clock: connection.clock.parameter() }),
        ])
        if (!left?.held || !row) throw new Error(`this process has lost its part in pass ${passId}`)
        return row
      })
      session.giveBack()
      return row.finished_at === null ? null : countsOf(row)
    },

    async leave() {
      if (!isIn) return
      isIn = false
      const left = await pipelineOn(session.client, PATIENCE.work)
        .get(LEAVE)
        .catch(() => undefined)
      session.giveBack(left === undefined)
    },
  }
}

/** Runs one transaction while no other hand can join or leave. If it fails, ends the session and with it the lock. */
async function atTheDoor<T>(
  { client, giveBack }: Session,
  { server, schema }: Connection,
  work: (tx: Pipeline) => Promise<T>,
): Promise<T> {
  const tx = pipelineOn(client, PATIENCE.work)
  try {
    tx.send('begin').catch(() => {})
    tx.run(DOOR).catch(() => {})
    await schema.look(tx)
    const value = await work(tx)
    await commit(tx)
    return value
  } catch (error) {
    const first = await firstError(tx, error)
    giveBack(true)
    throw explained(first, server)
  }
}

const countsParams = (counts: PassCounts) => ({
  plans_evaluated: counts.plansEvaluated,
  executions_created: counts.executionsCreated,
  windows_rolled: counts.windowsRolled,
})
const countsOf = (row: CountsRow): PassCounts => ({
  plansEvaluated: Number(row.plans_evaluated),
  executionsCreated: Number(row.executions_created),
  windowsRolled: Number(row.windows_rolled),
})
