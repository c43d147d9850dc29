// The interface between a store and a copy: a source locked at one moment, and a target that nobody can see until it is
// complete.

import type { Frozen } from '../core/frozen.ts'
import { Problem } from '../core/problem.ts'
import type { Instant } from '../core/time.ts'
import type { SinceCopy } from './replaced.ts'
import type { AuditEntry, Store } from './store.ts'
import type { Table } from './tables.ts'

/**
 * When the migrations of a file were applied, which every later copy of it records as well; and when the database was
 * created, which stands in for the migrations that it never had.
 */
export type FileHistory = {
  begunAt: Instant
  migrations: readonly { name: string; sha256: string; appliedAt: Instant }[]
}

type Column = Table['columns'][number]

/** Rows that can be read any number of times. */
export type Rows = {
  count(table: Table): Promise<number>
  /** In the order of the key. */
  blocks(table: Table): AsyncIterable<Block>
}

/** A locked database: all of it is read at one moment. */
export type HeldSource = Rows & {
  /** Files beside it that contain a part of it: a log, a journal. */
  playedIn: string[]
  fileHistory(): Promise<FileHistory>
  frozen(): Promise<Frozen | null>
  /** Freezes it durably, in the state that was read. Only where writers are kept away; nothing may be read after it. */
  freeze(frozen: Frozen, audit: AuditEntry): Promise<void>
  /** Resolves when its present state is durable: the copy that froze it may not have waited for that. */
  awaitDurable(): Promise<void>
  /** The same database, to be read through the store; null when it must not be touched. */
  store: Store | null
  /** Releases the source: writes that waited continue. */
  release(): Promise<void>
}

/** A copy that is a file, opened by the caller: the database's user may lack permission. */
export type OpenCopy = {
  isSame(file: string): boolean
  /** Copies it and its log to an unused name. Returns the files for SQLite to apply. Throws bad_file if it changes. */
  fetchTo(aside: string): string[]
  close(): void
}

/** A copy that takes the place of a database. */
export type Restoring = {
  /** The name of the copy for messages. */
  copy: string
  /** Null for a copy on a server. */
  open: OpenCopy | null
  audit: AuditEntry
  /** Changes the copy before it gets its name, the entry of the restore first. `sinceCopy` is null for none. */
  mend: (store: Store, sinceCopy: SinceCopy | null, audit: AuditEntry) => Promise<unknown>
}

/** Why a database is frozen when it gets its name. `earlier` are those that the replaced one had replaced. */
export type FrozenAtBirth = Pick<Frozen, 'kind' | 'by' | 'reason'> & { earlier: readonly string[] }

export const frozenByRestore = ({ copy, audit }: Restoring, earlier: readonly string[]): FrozenAtBirth => ({
  kind: 'restored',
  by: audit.osUser,
  reason: `restored from ${copy}`,
  earlier,
})

/** The frozen state at that moment. `kept` is the name of the database it replaces, null if there is none. */
export const frozenAt = (at: Instant, { earlier, ...why }: FrozenAtBirth, kept: string | null): Frozen => ({
  ...why,
  at,
  movedTo: null,
  replaced: [...(kept === null ? [] : [kept]), ...earlier],
})

/** Throws database_moved: a copy of a database that has moved is useless. */
export function refuseMovedCopy(frozen: Frozen | null, copy: string): void {
  if (frozen?.kind !== 'moved') return
  throw new Problem(
    'database_moved',
    `${copy} is a copy of a database that had moved to ${frozen.movedTo}: use that one, or run \`tranche --db COPY copy --unseal\` on this copy first.`,
  )
}

/** A database in the making. */
export type NewTarget = Rows & {
  load(table: Table, blocks: AsyncIterable<Block>): Promise<void>
  /** Must be called once everything is loaded: computes the derived rows, and syncs everything to disk. */
  settle(rest: { fileHistory: FileHistory }): Promise<void>
  /** Opens it through the store, once it is settled. */
  openStore(): Promise<Store>
  /** The data that the replaced database has and this one lacks; null if there is none. */
  readReplaced(): Promise<SinceCopy | null>
  /** Freezes the copy and names it. Returns the database that had the name. Throws database_exists for a taken name. */
  publish(frozen: FrozenAtBirth | null): Promise<{ replaced: string | null; bytes: number | null }>
  /** Removes it, unless it was published. */
  close(): Promise<void>
}

export type HoldOptions = {
  /** Keeps all writers away until it is released, so that the frozen state is the one that was read. */
  fromWriters: boolean
  /** Reads a file that must stay as it is, byte for byte. */
  untouched?: boolean
}
export type TargetOptions = {
  now: Instant
  /** Whether a database that has the name may be replaced. */
  replace: boolean
}

// Rows as lines of text, in the form in which PostgreSQL copies tables: the content of a copy, hashed on both sides.
// The same rows give the same bytes in either store.

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
export const rowsOf = ({ text }: Block, { columns }: Table): Record<string, Value>[] =>
  linesOf(text).map((line) => {
    const fields = line.split('\t')
    return Object.fromEntries(columns.map((column, at) => [column.name, valueIn(fields[at] ?? NULL, column)]))
  })

/** PostgreSQL's lines with numbers in our form: it writes 1e-07 where we write 1e-7. */
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

/** The select of all rows of a table in the order of its key, for either store. */
export const selectAll = ({ name, key, columns }: Table): string =>
  `select ${columns.map((column) => column.name).join(', ')} from ${name} order by ${key.join(', ')}`
