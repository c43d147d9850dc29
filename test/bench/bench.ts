// A run of the bench: measures rows one after the other, prints a table, and holds it against what is on record.

import { existsSync, writeFileSync } from 'node:fs'
import type { Backend } from './backend.ts'
import { measureRow } from './measure.ts'
import type { Options } from './options.ts'
import { broken, readLimits, recorded, writeLimits } from './ratios.ts'
import { type Report, reportHead } from './report.ts'
import { hasFailed, type Row, type Scale } from './row.ts'
import { tableOf } from './table.ts'

/** With --check a row that seems worse is measured again: what is slow every time is slow. */
const MEASUREMENTS_MAX = 3

type Run = {
  /** What the databases are on, and the rows that there are on it. */
  on: Backend
  rows: readonly Row[]
  /** Told what the run is at, and in the end what is wrong. */
  note: (text: string) => void
  print: (table: string) => void
}

/** Answers the exit code: 1 when a row could not be measured, or when --check finds a ratio far worse than it was. */
export async function bench(options: Options, { on, rows, note, print }: Run): Promise<number> {
  const { quick, only, rounds, json, check, record } = options
  // Read before anything takes its minutes.
  const limits = check === null ? null : readLimits(check)
  const scale: Scale = { on, quick, rounds, pick: (sizes) => (quick ? sizes.quick : sizes.full) }
  const head = await reportHead(options)
  const asked = rows.filter(({ name, fullOnly }) => only?.includes(name) ?? !(quick && fullOnly))
  const measured: Report['rows'] = []
  for (const [i, row] of asked.entries()) {
    note(`${i + 1} of ${asked.length}, ${row.name}: ${row.what}`)
    let outcome = await measureRow(row, scale)
    for (let n = 1; n < MEASUREMENTS_MAX && limits && broken([outcome], limits).length > 0; n++) {
      note('worse than on record: once more')
      outcome = await measureRow(row, scale)
    }
    measured.push(outcome)
  }
  if (json !== null) writeFileSync(json, `${JSON.stringify({ ...head, rows: measured }, null, 1)}\n`)
  if (record !== null) writeLimits(record, recorded(measured, existsSync(record) ? readLimits(record) : {}))
  print(tableOf(measured))
  const faults = [
    ...measured.filter(hasFailed).map(({ name, failed }) => `${name} could not be measured: ${failed}`),
    ...(limits === null ? [] : broken(measured, limits)),
  ]
  for (const fault of faults) note(fault)
  return faults.length === 0 ? 0 : 1
}
