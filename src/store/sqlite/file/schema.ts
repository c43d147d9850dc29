// The schema of a file, part by part, for comparison with that of the migrations: by its structure where SQLite gives
// it, and otherwise by normalised text, because a tool may have rewritten it.

import type { Part } from '../../health/schema.ts'
import type { Database } from './connection.ts'

type Named = { name: string }
type TableRow = Named & { strict: bigint; wr: bigint }
type ColumnRow = Named & {
  type: string
  notnull: bigint
  dflt_value: string | null
  pk: bigint
  hidden: bigint
}
type KeyRow = {
  id: bigint
  table: string
  from: string
  to: string | null
  on_update: string
  on_delete: string
}
type IndexRow = Named & { unique: bigint; origin: string; sql: string | null }
type IndexColumn = { name: string | null; desc: bigint; coll: string; key: bigint }
type SqlRow = Named & { type: string; tbl_name: string; sql: string }

/** The parts of the main schema. None of its tables and views is read, so that nothing in them can hang. */
export function partsOf(db: Database): Part[] {
  const query = <Row>(sql: string) => db.prepare<string[], Row>(sql)
  const tables = query<TableRow>(
    `select name, strict, wr from pragma_table_list
     where schema = 'main' and type = 'table' and substr(name, 1, 7) <> 'sqlite_'`,
  ).all()
  const made = query<SqlRow>(
    "select type, name, tbl_name, sql from sqlite_schema where sql is not null and substr(name, 1, 7) <> 'sqlite_'",
  ).all()
  const columns = query<ColumnRow>('select * from pragma_table_xinfo(?)')
  const keys = query<KeyRow>('select * from pragma_foreign_key_list(?) order by id, seq')
  const indexes = query<IndexRow>(
    'select l.*, s.sql from pragma_index_list(?) l left join sqlite_schema s on s.name = l.name',
  )
  const indexed = query<IndexColumn>('select * from pragma_index_xinfo(?)')
  const sqlOf = new Map(made.map((row) => [row.name, row.sql]))
  return [
    ...tables.flatMap(({ name: table, strict, wr }): Part[] => [
      { kind: 'table', name: table, definition: `${strict} ${wr}`, binding: false },
      ...columns.all(table).map((column) => columnPart(table, column)),
      ...keyParts(table, keys.all(table)),
      ...checksIn(sqlOf.get(table) ?? '').map((check) => binding('check', `${table} ${check}`, '')),
      ...indexes.all(table).map((index) => indexPart(table, index, indexed.all(index.name))),
    ]),
    ...made
      .filter(({ type }) => type === 'trigger')
      .map(({ name, tbl_name, sql }) => binding('trigger', `${tbl_name}.${name}`, meaningOf(sql).join(' '))),
    ...made
      .filter(({ type }) => type === 'view')
      .map(({ name }): Part => ({ kind: 'view', name, definition: '', binding: false })),
  ]
}

const binding = (kind: string, name: string, definition: string): Part => ({
  kind,
  name,
  definition,
  binding: true,
})

const columnPart = (table: string, { name, type, notnull, dflt_value, pk, hidden }: ColumnRow): Part => ({
  kind: 'column',
  name: `${table}.${name}`,
  definition: [type.toLowerCase(), notnull, dflt_value ?? '', pk, hidden].join(' '),
  binding: false,
})

function keyParts(table: string, rows: readonly KeyRow[]): Part[] {
  return [...Map.groupBy(rows, ({ id }) => id).values()].map((columns) => {
    const [first] = columns
    const [from, to] = [columns.map((one) => one.from).join(', '), columns.map((one) => one.to).join(', ')]
    const name = `${table} (${from}) references ${first?.table} (${to})`
    return binding('foreign key', name, `${first?.on_update} ${first?.on_delete}`)
  })
}

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
