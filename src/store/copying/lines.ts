// Rows as lines of text, in the form in which PostgreSQL copies tables: what a copy carries, and what is hashed on both
// sides. The same rows give the same bytes, whichever store they came from.

import type { Column, Table } from './tables.ts'

export type Value = bigint | number | string | null

/** Whole lines of a table, each with its line break. */
export type Block = { text: string; rows: number }

const ESCAPES: Record<string, string> = {
  '\\': '\\\\',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\v': '\\v',
}
const SPECIAL = /[\\\b\f\n\r\t\v]/
const ALL_SPECIAL = /[\\\b\f\n\r\t\v]/g
const MEANT = Object.fromEntries(Object.entries(ESCAPES).map(([meant, written]) => [written, meant]))
const NULL = '\\N'

/** The shortest decimal that reads as the same number. */
const realText = (value: number): string => (Object.is(value, -0) ? '-0' : String(value))

function fieldOf(value: Value, { kind }: Column): string {
  if (value === null) return NULL
  if (kind === 'real') return realText(Number(value))
  if (typeof value === 'string' && SPECIAL.test(value))
    return value.replaceAll(ALL_SPECIAL, (special) => ESCAPES[special] ?? special)
  return String(value)
}

/** A row as a line, without its line break. */
export function lineOf(row: readonly Value[], { columns }: Table): string {
  let line = ''
  for (let at = 0; at < columns.length; at++)
    line += (at === 0 ? '' : '\t') + fieldOf(row[at] ?? null, columns[at] as Column)
  return line
}

function valueIn(field: string, { kind }: Column): Value {
  if (field === NULL) return null
  if (kind === 'integer') return BigInt(field)
  if (kind === 'real') return Number(field)
  return field.includes('\\') ? field.replaceAll(/\\[\\bfnrtv]/g, (two) => MEANT[two] ?? two) : field
}

/** The rows of a block. */
export const rowsOf = ({ text }: Block, { columns }: Table): Value[][] =>
  linesOf(text).map((line) => line.split('\t').map((field, at) => valueIn(field, columns[at] as Column)))

/** PostgreSQL's lines with their numbers spelled our way: it writes 1e-07 where we write 1e-7. */
export function withOurNumbers(text: string, { columns }: Table): string {
  const reals = columns.flatMap(({ kind }, at) => (kind === 'real' ? [at] : []))
  if (reals.length === 0) return text
  return linesOf(text)
    .map((line) => {
      const fields = line.split('\t')
      for (const at of reals) {
        const field = fields[at] ?? NULL
        if (field !== NULL) fields[at] = realText(Number(field))
      }
      return `${fields.join('\t')}\n`
    })
    .join('')
}

const linesOf = (text: string): string[] => (text === '' ? [] : text.slice(0, -1).split('\n'))
