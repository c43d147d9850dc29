// A statement of SQL with named parameters, as both stores write it: ":tenant" becomes "$1", and "::bigint" stays a cast.

/** `Row` is what a row of its answer looks like: integers as bigint, as in the rows of src/store/rows. */
export type Query<Row> = {
  /** Under which each connection prepares it, on first use. */
  name: string
  text: string
  params: readonly string[]
  /** Only for the compiler. */
  row?: Row
}
export type Params = Readonly<Record<string, unknown>>

const PARAMETER = /(?<!:):([a-z][a-z0-9_]*)/g
let defined = 0

export function query<Row = never>(source: string): Query<Row> {
  const params: string[] = []
  const text = source.replaceAll(PARAMETER, (_, name: string) => {
    if (!params.includes(name)) params.push(name)
    return `$${params.indexOf(name) + 1}`
  })
  defined += 1
  return { name: `q${defined}`, text, params }
}

/** The values of a statement in the order of its parameters. One that is missing is a mistake of the caller's. */
export const valuesOf = ({ text, params: names }: Query<unknown>, params: Params): unknown[] =>
  names.map((name) => {
    if (!(name in params)) throw new Error(`no value for :${name} of ${text}`)
    const value = params[name]
    return Array.isArray(value) ? value.map(sendable) : sendable(value)
  })

/**
 * PostgreSQL's texts have no place for NUL, and it fails a statement that brings one; a path of a caller's may hold it.
 * What partners store holds no control character (http/fields.ts), so another one finds as little in its stead.
 */
const sendable = (value: unknown): unknown =>
  typeof value === 'string' && value.includes(NUL) ? value.replaceAll(NUL, INSTEAD_OF_NUL) : value
const NUL = '\u0000'
const INSTEAD_OF_NUL = '\u0001'
