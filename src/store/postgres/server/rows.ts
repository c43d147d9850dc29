// Many rows as one statement takes them: an array for each column, which `unnest` makes rows again.

type Type = 'bigint' | 'text' | 'double precision'
type Value = string | number | bigint | null
type RowOf<Types> = { readonly [Column in keyof Types]: Value }

export type Rows<Types> = {
  /** For `insert into t (...)` and `select ...`. */
  columns: string
  /** For `from`: the rows are called n. */
  from: string
  params(rows: readonly RowOf<Types>[]): Record<string, unknown>
}

/** `types` names the columns, which are parameters of the statement too. */
export function rowsOf<const Types extends Readonly<Record<string, Type>>>(types: Types): Rows<Types> {
  const named = Object.entries(types)
  const columns = named.map(([column]) => column).join(', ')
  return {
    columns,
    from: `unnest(${named.map(([column, type]) => `:${column}::${type}[]`).join(', ')}) as n (${columns})`,
    params: (rows) =>
      Object.fromEntries(
        named.map(([column, type]) => {
          const values = rows.map((row) => row[column] ?? null)
          return [column, type === 'text' ? values : numbers(values)]
        }),
      ),
  }
}

/** An array of numbers in PostgreSQL's own words: the client would look into each of them for quotes. */
const numbers = (values: readonly Value[]): string => `{${values.map((value) => value ?? 'null').join(',')}}`
