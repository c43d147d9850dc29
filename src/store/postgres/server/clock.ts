// What time it is: by the server's clock, which all hosts share, or by the clock that a test gave.

import type { Instant } from '../../../core/instant.ts'
import type { Tx } from './pipeline.ts'
import { type Query, query } from './statement.ts'

/** Milliseconds since 1970 as SQL. */
export const SERVER_MS_SQL = 'floor(extract(epoch from clock_timestamp()) * 1000)::bigint'
/** The same with the parameter `clock`: null, or what a test says. */
export const NOW_SQL = `coalesce(:clock::bigint, ${SERVER_MS_SQL})`

/** The same, never below what has been reported: the time that a write would have. */
export const PRESENT_SQL = `greatest(${NOW_SQL}, (select at from reported_until))`

const CLOCK: Query<{ at: bigint }> = query(`select ${NOW_SQL} as at`)
const PRESENT: Query<{ at: bigint }> = query(`select ${PRESENT_SQL} as at`)

export type ServerClock = {
  /** The value of the parameter `clock`. */
  parameter: () => Instant | null
  now(tx: Tx): Promise<Instant>
  /** The time that a write would have: never below what has been reported. */
  present(tx: Tx): Promise<Instant>
}

export function createServerClock(given: (() => Instant) | null): ServerClock {
  const parameter = () => given?.() ?? null
  const ask = async (tx: Tx, which: Query<{ at: bigint }>): Promise<Instant> => {
    const row = await tx.get(which, { clock: parameter() })
    return Number(row?.at) as Instant
  }
  return { parameter, now: async (tx) => given?.() ?? ask(tx, CLOCK), present: (tx) => ask(tx, PRESENT) }
}
