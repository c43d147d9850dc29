// Damage to a row, as by a disk: changed in the data itself, past the store and its digests.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { columnsToAdd } from '../../src/store/tables.ts'
import { tamper } from './copies.ts'

/** Runs a statement on the data of a place (sqlite.ts and postgres.ts), on a connection of its own. */
export async function damage(place: string, sql: string): Promise<void> {
  const note = join(place, 'address')
  await damageAt(existsSync(note) ? readFileSync(note, 'utf8') : join(place, 'tranche.db'), sql)
}

/** Runs it on the database that --db names. */
export async function damageAt(address: string, sql: string): Promise<void> {
  if (!address.startsWith('postgres')) {
    tamper(address, sql)
    return
  }
  const client = new pg.Client({ connectionString: address })
  await client.connect()
  await client.query(sql).finally(() => client.end())
}

/** Makes `count` more executions from an existing one. */
export async function multiplyExecutions(address: string, count: number): Promise<void> {
  const columns = columnsToAdd('executions')
  const made: Record<string, string> = {
    execution_id: `'exec_' || '${'0'.repeat(24)}' || (10000000 + i)`,
    tranche_index: '1000 + i',
  }
  await damageAt(
    address,
    `with recursive n(i) as (select 1 union all select i + 1 from n where i < ${count})
     insert into executions (${columns.join(', ')}) select ${columns.map((name) => made[name] ?? name).join(', ')}
     from n, (select * from executions limit 1) first`,
  )
}
