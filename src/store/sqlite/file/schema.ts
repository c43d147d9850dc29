// The schema of a file, part by part, for comparison with that of the migrations: by its structure where SQLite gives
// it, and otherwise by normalised text, because a tool may have rewritten it.

import type { Part } from '../../health/schema.ts'
import type { Database } from './connection.ts'

type Described = { name: string; definition: string }
type IndexRow = { name: string; unique: bigint; origin: string; sql: string | null }
type IndexColumn = { name: string | null; desc: bigint; coll: string; key: bigint }
type SqlRow = { name: string; type: string; tbl_name: string; sql: string }

const TABLES = `select name, strict || ' ' || wr as definition from pragma_table_list
  where schema = 'main' and type = 'table' and substr(name, 1, 7) <> 'sqlite_'`
/** The columns and the references of a table. */
const COLUMNS = `select name,
    concat_ws(' ', lower(type), "notnull", coalesce(dflt_value, ''), pk, hidden) as definition
  from pragma_table_xinfo(?)`
const KEYS = `select format('(%s) references %s (%s)', group_concat("from", ', ' order by seq), "table",
    group_concat(coalesce("to", ''), ', ' order by seq)) as name, on_update || ' ' || on_delete as definition
  from pragma_foreign_key_list(?) group by id`

/** The parts of the main schema. None of its tables and views is read, so that nothing in them can hang. */
export function partsOf(db: Database): Part[] {
  const query = <Row>(sql: string) => db.prepare<string[], Row>(sql)
  const tables = query<Described>(TABLES).all()
  const made = query<SqlRow>(
    "select type, name, tbl_name, sql from sqlite_schema where sql is not null and substr(name, 1, 7) <> 'sqlite_'",
  ).all()
  const columns = query<Described>(COLUMNS)
  const keys = query<Described>(KEYS)
  const indexes = query<IndexRow>(
    'select l.*, s.sql from pragma_index_list(?) l left join sqlite_schema s on s.name = l.name',
  )
  const indexed = query<IndexColumn>('select * from pragma_index_xinfo(?)')
  const sqlOf = new Map(made.map((row) => [row.name, row.sql]))
  return [
    ...tables.flatMap(({ name: table, definition }): Part[] => [
      part('table', table, definition),
      ...columns.all(table).map((column) => part('column', `${table}.${column.name}`, column.definition)),
      ...keys.all(table).map((key) => binding('foreign key', `${table} ${key.name}`, key.definition)),
      ...checksIn(sqlOf.get(table) ?? '').map((check) => binding('check', `${table} ${check}`, '')),
      ...indexes.all(table).map((index) => indexPart(table, index, indexed.all(index.name))),
    ]),
    ...made
      .filter(({ type }) => type === 'trigger')
      .map(({ name, tbl_name, sql }) => binding('trigger', `${tbl_name}.${name}`, meaningOf(sql).join(' '))),
    ...made.filter(({ type }) => type === 'view').map(({ name }) => part('view', name, '')),
  ]
}

const part = (kind: string, name: string, definition: string): Part => ({
  kind,
  name,
  definition,
  binding: false,
})
const binding = (...described: Parameters<typeof part>): Part => ({ ...part(...described), binding: true })

/** An index with a generated name counts by its columns: SQLite numbers such indexes. */
function indexPart(table: string, index: IndexRow, columns: readonly IndexColumn[]): Part {
  const keys = columns.filter(({ key }) => key === 1n)
  const on = keys.map(({ name, desc, coll }) => `${name} ${desc} ${coll}`).join(', ')
  const tokens = meaningOf(index.sql ?? '')
  const rest = index.sql === null ? '' : tokens.slice(tokens.indexOf('on')).join(' ')
  return {
    kind: index.unique === 1n ? 'unique index' : 'index',
    name: index.origin === 'c' ? index.name : `${table} (${keys.map(({ name }) => name).join(', ')})`,
    definition: `${table} ${on} ${rest}`,
    binding: index.unique === 1n,
  }
}

/** The conditions of a table, each with its brackets. */
function checksIn(sql: string): string[] {
  const tokens = meaningOf(sql)
  return tokens.flatMap((token, at) => {
    if (token !== 'check') return []
    let depth = 0
    for (let end = at + 1; end < tokens.length; end++) {
      if (tokens[end] === '(') depth += 1
      if (tokens[end] === ')' && --depth === 0) return [tokens.slice(at + 1, end + 1).join(' ')]
    }
    return []
  })
}

const TOKENS =
  /'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|\/\*[\s\S]*?\*\/|\s+|[A-Za-z_][\w$]*|\d[\w.]*|[<>=!|]+|./g

/** The words of SQL in lower case, without comments, white space, and quotes that a name does not need. */
const meaningOf = (sql: string): string[] =>
  (sql.match(TOKENS) ?? [])
    .filter((token) => !/^(\s|--|\/\*)/.test(token))
    .map((token) => (token.startsWith("'") ? token : token.replace(/^["`[](\w+)["`\]]$/, '$1').toLowerCase()))
