// A flipped bit in a trade, an adjustment or a late report. Each damage hits a copy of a database with such rows. A
// changed column is seen when the database does not open, or `check` exits with 3; all others are in HARMLESS, with the
// reason. DAMAGES=900 does more, and prints a table.

import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import SQLite from 'better-sqlite3'
import { playSequel, playStory } from '../releases/story.ts'
import { openShell, runHere, succeed } from '../support/service.ts'
import { chanceOf } from './failing.ts'

// Where the rows of a SQLite file lie: the bytes of each cell of each table, read from the file's own format
// (https://www.sqlite.org/fileformat2.html).

/** The bytes of one row in the file: from `start` up to, not including, `end`. */
type Payload = { start: number; end: number }

const INTERIOR_INDEX = 2
const INTERIOR_TABLE = 5
const LEAF_INDEX = 10

/** The rows of every table, by its name; what overflows to a page of its own is left out. */
function payloadsOf(file: string, bytes: Buffer): Map<string, Payload[]> {
  const db = new SQLite(file, { readonly: true })
  const roots = db
    .prepare("select name, rootpage from sqlite_schema where type = 'table' and name not like 'sqlite_%'")
    .all() as { name: string; rootpage: number }[]
  db.close()
  const pageBytes = bytes.readUInt16BE(16)
  return new Map(roots.map(({ name, rootpage }) => [name, [...cellsOf(bytes, pageBytes, rootpage)]]))
}

function* cellsOf(bytes: Buffer, pageBytes: number, page: number): Generator<Payload> {
  const base = (page - 1) * pageBytes
  const head = page === 1 ? base + 100 : base
  const kind = bytes[head] as number
  const isInterior = kind === INTERIOR_INDEX || kind === INTERIOR_TABLE
  const cells = bytes.readUInt16BE(head + 3)
  for (let i = 0; i < cells; i++) {
    let at = base + bytes.readUInt16BE(head + (isInterior ? 12 : 8) + 2 * i)
    if (isInterior) {
      yield* cellsOf(bytes, pageBytes, bytes.readUInt32BE(at))
      at += 4
      if (kind === INTERIOR_TABLE) continue
    }
    const length = varint(bytes, at)
    // An index, as a table without rowid is one, has no number before its row.
    const start =
      kind === LEAF_INDEX || kind === INTERIOR_INDEX ? length.next : varint(bytes, length.next).next
    yield { start, end: Math.min(start + length.value, base + pageBytes) }
  }
  if (isInterior) yield* cellsOf(bytes, pageBytes, bytes.readUInt32BE(head + 8))
}

function varint(bytes: Buffer, at: number): { value: number; next: number } {
  let value = 0
  for (let i = 0; i < 9; i++) {
    const byte = bytes[at + i] as number
    value = value * 128 + (byte & 0x7f)
    if (byte < 0x80) return { value, next: at + i + 1 }
  }
  return { value, next: at + 9 }
}

// The damages, and which of them may go unseen.

const DAMAGES = Number(process.env.DAMAGES ?? 120)
/** How many bytes are noise in every fifth damage. */
const WIDE = 4

/** What a change of a column that nobody sees can cost: nothing that this product answers for. */
const HARMLESS: Record<string, string> = {
  'late_reports.decision_reason': 'the words of an operator; the audit log has them as well',
  'late_reports.accepted_at': 'when it was accepted: shown, and the audit log has it as well',
  'late_reports.decided_at': 'when it was decided: shown, and the audit log has it as well',
  'late_reports.digest': 'written as 0, and read by nobody',
}

const DIGESTED: readonly string[] = ['trades', 'adjustments', 'late_reports']

type Values = Record<string, unknown>
type Damage = { column: string; seenBy: string | null }

/** All rows of all tables, by the key they are read in the order of. */
function rowsOf(file: string): Map<string, Values[]> {
  const db = new SQLite(file, { readonly: true })
  try {
    db.defaultSafeIntegers(true)
    return new Map(
      DIGESTED.map((name) => [name, db.prepare(`select * from ${name} not indexed`).all() as Values[]]),
    )
  } finally {
    db.close()
  }
}

/** Of these it decides something whether there is a value, and nothing which: `NAME or null` is never harmless. */
const WHETHER: ReadonlySet<string> = new Set(['late_reports.accepted_at', 'late_reports.decided_at'])

const named = (column: string, before: unknown, after: unknown): string =>
  WHETHER.has(column) && (before === null || after === null) ? `${column} or null` : column

function changedColumns(before: Map<string, Values[]>, after: Map<string, Values[]>): string[] {
  const changed = new Set<string>()
  for (const [table, rows] of before) {
    const now = after.get(table) ?? []
    if (now.length !== rows.length) changed.add(`${table}.*`)
    for (const [i, row] of rows.entries())
      for (const [column, value] of Object.entries(row))
        if (now[i] && now[i][column] !== value)
          changed.add(named(`${table}.${column}`, value, now[i][column]))
  }
  return [...changed]
}

/** A check of a damaged copy, on a machine that is busy with other things. */
const DAMAGE_MAX_MS = 3_000

const timeout = DAMAGES * DAMAGE_MAX_MS
test('a flipped bit in a row is seen, or decides nothing', { timeout }, async (t) => {
  const random = chanceOf(t)
  const shell = openShell(t)
  // It has an adjustment, and a late fill that an operator accepted.
  const { keys } = await playStory(shell, 1 + Math.floor(random() * 1000))
  await playSequel(shell, keys)
  const sound = join(shell.folder, 'sound.db')
  await succeed(shell, 'backup', sound)
  const [bytes, before] = [readFileSync(sound), rowsOf(sound)]
  const check = (file: string) =>
    runHere(['--db', file, 'check', '--json'], { machine: shell.machine, env: {}, input: '', terminals: [] })
  assert.equal((await check(sound)).code, 0, (await check(sound)).out)
  const places = [...payloadsOf(sound, bytes)].filter(([table]) => DIGESTED.includes(table))
  assert.ok(places.length === DIGESTED.length && places.every(([, rows]) => rows.length > 0))

  /** What became of one damage: null when no row reads differently. */
  async function strike(at: number): Promise<{ changed: string[]; seenBy: string | null } | null> {
    const [, rows] = places[Math.floor(random() * places.length)] as (typeof places)[number]
    const { start, end } = rows[Math.floor(random() * rows.length)] as (typeof rows)[number]
    const damaged = Buffer.from(bytes)
    const byte = start + Math.floor(random() * (end - start))
    if (at % 5 === 0)
      for (let i = byte; i < Math.min(end, byte + WIDE); i++) damaged[i] = Math.floor(random() * 256)
    else damaged[byte] = (bytes[byte] as number) ^ (1 << Math.floor(random() * 8))
    const file = join(shell.folder, `damaged-${at}.db`)
    writeFileSync(file, damaged, { mode: 0o600 })
    let changed: string[]
    try {
      changed = changedColumns(before, rowsOf(file))
    } catch {
      return { changed: ['unreadable'], seenBy: 'SQLite' }
    }
    if (changed.length === 0) return null
    const { code, out, err } = await check(file)
    if (code === 0) return { changed, seenBy: null }
    assert.ok(code === 3 || /database_damaged|not a database|schema_newer/.test(err), `${code} ${err}`)
    const findings: { kind: string; level: string }[] = code === 3 ? JSON.parse(out).findings : []
    const kinds = findings.filter(({ level }) => level === 'error').map(({ kind }) => kind)
    return {
      changed,
      seenBy: kinds.length > 0 ? [...new Set(kinds)].join(' ') : `refused: ${err.slice(0, 80)}`,
    }
  }

  const damages: Damage[] = []
  let changedRows = 0
  for (let at = 0; at < DAMAGES; at++) {
    const outcome = await strike(at)
    if (!outcome) continue
    changedRows += 1
    for (const column of outcome.changed) damages.push({ column, seenBy: outcome.seenBy })
  }
  const unseen = damages.filter(({ seenBy }) => seenBy === null)
  t.diagnostic(
    `${DAMAGES} damages: ${changedRows} changed a row, ${unseen.length} changed columns went unseen`,
  )
  if (process.env.DAMAGES !== undefined) for (const line of tableOf(damages)) t.diagnostic(line)
  assert.ok(changedRows > DAMAGES / 8, 'few damages hit anything')
  assert.deepEqual(
    [...new Set(unseen.map(({ column }) => column))].filter((column) => !(column in HARMLESS)),
    [],
  )
})

/** A line for each column: how often it changed, by what it was seen, and why it is harmless where it was not. */
function tableOf(damages: readonly Damage[]): string[] {
  return [...Map.groupBy(damages, ({ column }) => column)].sort().map(([column, of]) => {
    const seen = Map.groupBy(of, ({ seenBy }) => seenBy ?? 'nobody')
    const by = [...seen].map(([who, times]) => `${who} ${times.length}`).join(', ')
    return `${column} | ${of.length} | ${by} | ${seen.has('nobody') ? (HARMLESS[column] ?? '!') : ''}`
  })
}
