// Row digests: stored with each row, to detect one whose bytes have changed on the disk or were changed by another
// program. The check compares every row with its digest, and code that acts on a row calls `intact` first
// (docs/decisions/file.md#row-digests).

import { hash } from 'node:crypto'
import { type Report, reportFingerprint, type Trade } from '../core/confirmation.ts'
import { type Adjustment, adjustmentContent } from '../core/corrections/adjustment.ts'
import { DamagedRow } from '../core/problem.ts'
import { type Digested, type NewRow, TABLES, type Table } from './tables.ts'

export type { Digested }

export const tradeDigest = ({ executionId, recordedAt, receivedAt, report }: Trade): string => {
  const content = [executionId, recordedAt, reportFingerprint(report)]
  // Trades that were confirmed in time are hashed as before late ones stored the time of their report.
  return digestOf(receivedAt === null ? content : [...content, receivedAt])
}

export const adjustmentDigest = (adjustment: Adjustment): string => digestOf(adjustmentContent(adjustment))

/** Of a fixed size, however long the report is. */
export const reportDigest = (report: Report): string => digestOf([reportFingerprint(report)])

const digestOf = (content: unknown[]): string => hash('sha256', JSON.stringify(content))

type Digests = { key: readonly string[]; columns: readonly string[]; isMixed: boolean }

/**
 * What the digest of each table covers. Those of tables whose rows are read or written by the thousand in one pass or
 * poll, or at every write, are mixed, in a fraction of the time that it takes to hash them. Others stay hashed, which
 * SQL can do on both stores: a migration that changes their columns makes their digests there
 * (sql/0021_order_of_tiers.sql).
 */
export const DIGESTED = Object.fromEntries(
  TABLES.filter(({ digests }) => digests !== 'none').map((table) => [table.name, digestsOf(table)]),
) as Readonly<Record<string, Digests>> as Readonly<Record<Digested, Digests>>

function digestsOf({ key, digests, columns }: Table): Digests {
  const covered = (how: true | 'last') =>
    columns.flatMap(({ name, isCovered }) => (isCovered === how ? name : []))
  return { key, columns: [...covered(true), ...covered('last')], isMixed: digests === 'mixed' }
}

type Value = string | number | bigint | null | undefined
export type DigestedRow = Readonly<Record<string, unknown>>

/**
 * The only column that is neither an integer nor a text. It enters as a multiple of 2^-40, which both stores write
 * alike.
 */
const REAL = 'half_width'
const REAL_STEPS = 2 ** 40
/** Far above every share of a price; a damaged value may be anything. */
const REAL_MAX = 2 ** 20

function spelledReal(value: NonNullable<Value>): string {
  if (Math.abs(Number(value)) >= REAL_MAX) return `${value}`
  const steps = Math.floor(Number(value) * REAL_STEPS)
  return `${Number.isSafeInteger(steps) ? steps : BigInt(steps)}`
}

/** The first 48 bits of the SHA-256 of a text, as an integer. */
export const textDigest = (text: string): number => Number.parseInt(hash('sha256', text).slice(0, 12), 16)

function hashed(name: Digested, row: DigestedRow): number {
  const texts = DIGESTED[name].columns.map((column) => {
    const value = row[column] as Value
    if (value === null || value === undefined) return ''
    return column === REAL ? spelledReal(value) : value
  })
  return textDigest(texts.join('|'))
}

const TWO_32 = 2 ** 32
const [LANE_1, LANE_2] = [0x243f6a88, 0x85a308d3]

// A step loses nothing: different words, or different states, give different states. The two lanes use different steps.
function step1(state: number, word: number): number {
  const product = Math.imul(state ^ word, 0x85ebca6b)
  return product ^ (product >>> 15)
}

function step2(state: number, word: number): number {
  const product = Math.imul(state ^ word, 0x27d4eb2f)
  return product ^ (product >>> 13)
}

/**
 * 47 bits, and less than zero, as no hashed digest is: so a row tells which of the two it was given. All of the first
 * lane is in it and 15 bits of the second. A change within one half of an integer, or of one character, is always seen,
 * because the first lane ends elsewhere; of others, one in 2^47 is not. Databases hold these digests, so what is made
 * of a row never changes. A column that is added last, and null in the rows that there are, leaves theirs alone.
 */
function mixed(name: Digested, row: DigestedRow): number {
  let lane1 = LANE_1
  let lane2 = LANE_2
  let nulls = 0
  for (const column of DIGESTED[name].columns) {
    const value = row[column] as Value
    if (value === null || value === undefined) {
      nulls += 1
      continue
    }
    if (nulls > 0) {
      lane1 = step1(lane1, nulls)
      lane2 = step2(lane2, nulls)
      nulls = 0
    }
    const whole = column === REAL ? Math.floor(Number(value) * REAL_STEPS) : value
    if (typeof whole === 'bigint' || Number.isSafeInteger(whole)) {
      const number = Number(whole)
      const isExact = typeof whole !== 'bigint' || Number.isSafeInteger(number)
      const low = isExact ? number | 0 : Number(BigInt.asIntN(32, whole))
      const high = isExact ? Math.floor(number / TWO_32) | 0 : Number(BigInt.asIntN(32, whole >> 32n))
      lane1 = step1(step1(lane1, low), high)
      lane2 = step2(step2(lane2, low), high)
      continue
    }
    // A damaged disk can return something that is neither a text nor an integer, although the schema allows nothing
    // else.
    const text = typeof value === 'string' ? value : `${typeof value} ${value}`
    for (let i = 0; i < text.length; i++) {
      const unit = text.charCodeAt(i)
      lane1 = step1(lane1, unit)
      lane2 = step2(lane2, unit)
    }
    lane1 = step1(lane1, text.length)
    lane2 = step2(lane2, text.length)
  }
  return -1 - ((lane2 >>> 17) * TWO_32 + (lane1 >>> 0))
}

/** The digest of a table's row; a missing value counts as null. */
export const rowDigest = (name: Digested, row: DigestedRow): number =>
  DIGESTED[name].isMixed ? mixed(name, row) : hashed(name, row)

/** Adds the digest to a row that the caller owns, and returns it. */
export function withDigest<Row extends DigestedRow>(name: Digested, row: Row): Row & { digest: number } {
  const digested = row as Row & { digest: number }
  digested.digest = rowDigest(name, row)
  return digested
}

/** A row to be added, with its digest. */
export const newRow = <T extends Digested>(name: T, row: NewRow<T>): NewRow<T> & { digest: number } =>
  withDigest(name, row)

/** Rows that were stored before digests were mixed keep their hashed ones until they are written again. */
export function isIntact(name: Digested, row: DigestedRow, digest = row.digest): boolean {
  const stored = Number(digest)
  return stored === (stored < 0 ? mixed(name, row) : hashed(name, row))
}

/** The name of a table's row in messages to an operator. */
export const placeOf = (name: Digested, row: DigestedRow): string =>
  `${name} row ${DIGESTED[name].key.map((column) => row[column]).join(' ')}`

/**
 * Returns the row if it is what was stored. `digest` is given for a row that was joined to another table, where its
 * digest has another name. Throws DamagedRow.
 */
export function intact<Row extends object>(name: Digested, row: Row, digest?: bigint): Row {
  if (!isIntact(name, row as DigestedRow, digest))
    throw new DamagedRow(name, placeOf(name, row as DigestedRow))
  return row
}
