// `npm run bench`. Measures the rows one after the other, says what it is at on stderr, and prints a table. Exits 1 when
// a row could not be measured, or when --check finds a ratio that is far worse than it was.

import { existsSync, writeFileSync } from 'node:fs'
import { optionsOrExit } from '../support/runner.ts'
import { onFile } from './file/backend.ts'
import { broken, readLimits, recorded, writeLimits } from './limits.ts'
import { measureRow } from './measure.ts'
import { optionsOf } from './options.ts'
import { POSTGRES_ROWS } from './postgres/rows.ts'
import { type Report, reportHead } from './report.ts'
import { hasFailed, type Row, type Scale } from './row.ts'
import { ROWS } from './rows.ts'
import { tableOf } from './table.ts'

/** With --check a row that seems worse is measured again: what is slow every time is slow. */
const MEASUREMENTS_MAX = 3
const BROKEN_OFF = 130

const options = optionsOrExit((args) =>
  optionsOf(args, { file: namesOf(ROWS), postgres: namesOf(POSTGRES_ROWS) }),
)
const { store, quick, only, rounds, json, check, record } = options
const note = (text: string): void => void process.stderr.write(`${text}\n`)
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(BROKEN_OFF))
// Read before anything takes its minutes.
const limits = check === null ? null : readLimits(check)

const report: Report = { ...(await reportHead(options)), rows: await measureAll() }
if (json !== null) writeFileSync(json, `${JSON.stringify(report, null, 1)}\n`)
if (record !== null) writeLimits(record, recorded(report.rows, existsSync(record) ? readLimits(record) : {}))
process.stdout.write(`${tableOf(report.rows)}\n`)
const faults = [
  ...report.rows.filter(hasFailed).map(({ name, failed }) => `${name} could not be measured: ${failed}`),
  ...(limits === null ? [] : broken(report.rows, limits)),
]
for (const fault of faults) note(fault)
process.exitCode = faults.length === 0 ? 0 : 1

async function measureAll(): Promise<Report['rows']> {
  const on = store === 'file' ? onFile : (await import('./postgres/backend.ts')).onPostgres
  const scale: Scale = { on, quick, rounds, pick: (sizes) => (quick ? sizes.quick : sizes.full) }
  const asked = (store === 'file' ? ROWS : POSTGRES_ROWS).filter(
    ({ name, fullOnly }) => only?.includes(name) ?? !(quick && fullOnly),
  )
  const rows: Report['rows'] = []
  for (const [i, row] of asked.entries()) {
    note(`${i + 1} of ${asked.length}, ${row.name}: ${row.what}`)
    let measured = await measureRow(row, scale)
    for (let n = 1; n < MEASUREMENTS_MAX && limits && broken([measured], limits).length > 0; n++) {
      note('worse than on record: once more')
      measured = await measureRow(row, scale)
    }
    rows.push(measured)
  }
  return rows
}

function namesOf(rows: readonly Row[]): string[] {
  return rows.map(({ name }) => name)
}
