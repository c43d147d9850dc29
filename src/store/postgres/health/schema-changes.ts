// What somebody has changed in the schema: it is compared with one that the migrations build beside it, in a
// transaction that is undone. So no list has to be maintained, and it does not matter how a version of the server
// spells a definition.

import type { ClientBase } from 'pg'
import type { Instant } from '../../../core/instant.ts'
import type { Fault } from '../../check.ts'
import type { Connection } from '../server/connection.ts'
import { explained } from '../server/error-words.ts'
import { bringUp, SCHEMA } from '../server/migrate.ts'

const EXPECTED = `${SCHEMA}_expected`

type Part = { kind: string; name: string; definition: string; binding: boolean }

/**
 * The parts of the schema that the session uses. Those that are `binding` change what a write does, so an added one
 * counts as well. An extra column, index or table does no harm.
 */
const PARTS = `
  select 'table' as kind, relname::text as name,
    relkind::text || case when relrowsecurity then ' with policies' else '' end as definition, false as binding
  from pg_class where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p', 'v', 'm', 'f')
  union all
  select 'column', c.relname || '.' || a.attname,
    format_type(a.atttypid, a.atttypmod) || ' ' || a.attnotnull::text || ' ' || a.attidentity::text || a.attgenerated::text || ' '
      || coalesce(a.attcollation::regcollation::text, '') || ' ' || coalesce(pg_get_expr(d.adbin, d.adrelid), ''), false
  from pg_class c join pg_attribute a on a.attrelid = c.oid
  left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
  where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and a.attnum > 0 and not a.attisdropped
  union all
  select 'constraint', conname::text, conrelid::regclass::text || ' ' || replace(pg_get_constraintdef(oid, true), ' NOT VALID', ''), true
  from pg_constraint where connamespace = current_schema()::regnamespace and contype <> 'n'
  union all
  select 'index', c.relname::text, pg_get_indexdef(c.oid, 0, true), i.indisunique
  from pg_index i join pg_class c on c.oid = i.indexrelid
  where c.relnamespace = current_schema()::regnamespace
  union all
  select 'trigger', c.relname || '.' || t.tgname, pg_get_triggerdef(t.oid, true) || ' ' || t.tgenabled::text, true
  from pg_trigger t join pg_class c on c.oid = t.tgrelid
  where c.relnamespace = current_schema()::regnamespace and not t.tgisinternal and t.tgname <> 'a_sealed'
  union all
  select 'rule', c.relname || '.' || r.rulename, pg_get_ruledef(r.oid, true), true
  from pg_rewrite r join pg_class c on c.oid = r.ev_class
  where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p')
  union all
  select 'function', p.proname::text, p.prosrc, false
  from pg_proc p where p.pronamespace = current_schema()::regnamespace`

/** Reports nothing when the user may not create a schema, or may not write at all. */
export async function changesOfSchema({ pool, server }: Connection): Promise<Fault[]> {
  const client = await pool.connect()
  try {
    await client.query('begin')
    const { rows } = await client.query(
      `select has_database_privilege(current_database(), 'create')
         and current_setting('transaction_read_only') = 'off' as able`,
    )
    if (!(rows[0] as { able: boolean }).able) return []
    const found = await partsOf(client)
    await client.query(`set local search_path to ${EXPECTED}`)
    await bringUp(client, EXPECTED, 0 as Instant)
    const next = ['psql', server, '-c', `\\d ${SCHEMA}.*`]
    return differences(await partsOf(client), found).map((one) => ({ ...faultOf(one), next }))
  } catch (error) {
    throw explained(error, server)
  } finally {
    // Everything that it has set or made is undone when its session ends.
    client.release(true)
  }
}

const partsOf = async (client: ClientBase): Promise<Part[]> => (await client.query(PARTS)).rows as Part[]

type Difference = { what: 'is missing' | 'was changed' | 'was added'; part: Part }

function differences(expected: readonly Part[], found: readonly Part[]): Difference[] {
  const nameOf = ({ kind, name }: Part): string => `${kind} ${name}`
  const there = new Map(found.map((part) => [nameOf(part), part.definition]))
  const known = new Set(expected.map(nameOf))
  return [
    ...expected.flatMap((part): Difference[] => {
      const definition = there.get(nameOf(part))
      if (definition === part.definition) return []
      return [{ what: definition === undefined ? 'is missing' : 'was changed', part }]
    }),
    ...found.flatMap((part): Difference[] =>
      part.binding && !known.has(nameOf(part)) ? [{ what: 'was added', part }] : [],
    ),
  ]
}

const faultOf = ({ what, part: { kind, name } }: Difference): Fault => ({
  kind: 'schema',
  subject: `${kind} ${name}`,
  message: `${what} since the migrations made it: put it back, because whatever relies on it may be wrong`,
})
