// The check: what the server knows to be damaged, rows that dangle, every rule of the ledger, and rows that were
// changed after they were recorded.

import { Problem } from '../../../core/problem.ts'
import type { WindowStore } from '../../bring-back-windows.ts'
import type { CheckStore, Fault } from '../../check.ts'
import {
  ADJUSTMENTS_AFTER,
  breakers,
  brokenFault,
  changedAdjustments,
  changedRows,
  changedTrades,
  DIGESTED_TABLES,
  FINDINGS_MAX,
  ROWS_PER_READ,
  TRADES_AFTER,
} from '../../common/health/faults.ts'
import type { Sql } from '../../common/reader.ts'
import { followsRule, LEDGER_RULES } from '../../sql/check-rules.ts'
import type { Connection } from '../server/connection.ts'
import { queryOf } from '../server/reader.ts'
import type { Query } from '../server/statement.ts'
import { createWarnings } from './check-warnings.ts'
import { DANGLING, danglingFault, INTEGRITY, integrityFault } from './integrity.ts'
import { changesOfSchema } from './schema-changes.ts'

/** The schedules of a partner that has just been changed may still be behind it. */
const NOT_BEHIND = 'and not exists (select 1 from schedules_behind b where b.partner_slug = r.partner_slug)'

const RULES = [...LEDGER_RULES, followsRule(NOT_BEHIND)].map((rule) => ({
  rule,
  broken: queryOf(breakers(rule)),
}))

export const createCheckStore = (
  connection: Connection,
  listAhead: WindowStore['listAhead'],
): CheckStore => ({
  findFaults: createFaults(connection),
  findWarnings: createWarnings(connection, listAhead),
})

function createFaults(connection: Connection): CheckStore['findFaults'] {
  const { read } = connection
  /**
   * Each on a snapshot of its own: one snapshot for the whole check would keep the server from cleaning up meanwhile.
   */
  const unhurried = <Row>(statement: Query<Row>, params = {}): Promise<Row[]> =>
    read((tx) => tx.all(statement, params), { reads: 'whole' })

  /** Looks at all rows of a table, in the order of their key. */
  async function paged<Row, Key extends object>(
    statement: Sql<Row>,
    { first, keyOf, changed }: { first: Key; keyOf: (row: Row) => Key; changed: (rows: Row[]) => Fault[] },
  ): Promise<Fault[]> {
    const found: Fault[] = []
    for (let after = first; ; ) {
      const rows = await unhurried(queryOf(statement), { ...after, limit: ROWS_PER_READ })
      found.push(...changed(rows))
      const last = rows.at(-1)
      if (rows.length < ROWS_PER_READ || last === undefined || found.length > FINDINGS_MAX) return found
      after = keyOf(last)
    }
  }

  return async () => [
    ...(await changesOfSchema(connection)),
    ...(await readable('integrity', async () => (await unhurried(INTEGRITY)).map(integrityFault))),
    ...(await readable('foreign_key', async () => (await unhurried(DANGLING)).map(danglingFault))),
    ...(await inTurn(RULES, ({ rule, broken }) =>
      readable(rule.kind, async () => (await unhurried(broken)).map((row) => brokenFault(rule, row))),
    )),
    ...(await inTurn(DIGESTED_TABLES, ({ name, page, first, keyOf }) =>
      readable('row_changed', () =>
        paged(page, { first, keyOf, changed: (rows) => changedRows(name, rows) }),
      ),
    )),
    ...(await readable('adjustment_changed', () =>
      paged(ADJUSTMENTS_AFTER, {
        first: { after: 0n },
        keyOf: (row) => ({ after: row.adjustment_id }),
        changed: changedAdjustments,
      }),
    )),
    ...(await readable('trade_changed', () =>
      paged(TRADES_AFTER, {
        first: { after: '' },
        keyOf: (row) => ({ after: row.execution_id }),
        changed: changedTrades,
      }),
    )),
  ]
}

/** A page that cannot be read is a finding like any other: the rest may still have something to say. */
async function readable(kind: string, look: () => Promise<Fault[]>): Promise<Fault[]> {
  try {
    return await look()
  } catch (error) {
    if (!(error instanceof Problem && error.code === 'database_damaged')) throw error
    const message = `cannot be read where ${kind} is looked for: ${error.message}`
    return [{ kind: 'integrity', subject: 'database', message }]
  }
}

async function inTurn<T>(items: readonly T[], look: (item: T) => Promise<Fault[]>): Promise<Fault[]> {
  const found: Fault[] = []
  for (const item of items) found.push(...(await look(item)))
  return found
}
