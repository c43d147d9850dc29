// Writing an export: row by row, to a pipe or to a file that appears only when it is whole.

import { existsSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { BOM, csvHeader, csvRow } from '../../billing/csv.ts'
import { EXPORTS, type ReportKind, type Row } from '../../billing/export.ts'
import { createTotals } from '../../billing/totals.ts'
import type { FixedPeriod } from '../../store/months.ts'
import type { TenantFilter } from '../../store/partners.ts'
import { refuseDatabaseFile } from '../../store/sqlite/file/own-files.ts'
import type { Store } from '../../store/store.ts'
import { nameTaken, writeFileWhole } from '../../whole-file.ts'
import type { Cli } from '../context.ts'
import { counted } from '../terminal/numbers.ts'
import { note, print, write } from '../terminal/print.ts'
import { createProgress } from '../terminal/progress.ts'
import { fixPeriodFor, noteStage } from './period.ts'

/** Where a result goes: null for stdout. */
export type Target = { output: string | null; force?: boolean }
export type Form = { report: ReportKind; format: 'csv' | 'json'; bom?: boolean; totals?: boolean }
export type ExportOptions = Target & Form

/** Text gathered before it is written: a write for every row would be slow. */
const CHUNK_CHARS = 64 * 1024

/** What an export reads: each month as its period was fixed. */
export type Reading = { store: Store; periods: readonly FixedPeriod[]; filter: TenantFilter }
type Export = { store: Store; months: readonly string[]; filter: TenantFilter; options: ExportOptions }

export async function exportMonths(cli: Cli, { store, months, filter, options }: Export): Promise<void> {
  const { output } = options
  // Rows live for a moment. Left to itself V8 would rather grow its nursery to many times what they need.
  setFlagsFromString('--semi-space-growth-factor=1')
  refuseTarget(cli, options)
  const periods = []
  for (const month of months) periods.push(await fixPeriodFor(cli, store, { month, filter }))
  for (const period of periods) noteStage(cli, period)
  const reading = { store, periods, filter }
  // Rows on the same screen are progress enough; a bar between them would spoil both.
  const screen = output === null && cli.streams.out.isTTY
  const watched = cli.streams.err.isTTY && !screen
  const total = watched && options.report === 'trades' ? await countLines(reading) : 0
  const progress = watched ? createProgress(cli.streams, () => 'exporting') : null
  let rows = 0
  const chunks = (async function* () {
    for await (const text of textOf(reading, options)) {
      rows += text.rows
      if (total > 0) progress?.show(rows / total)
      yield text.text
    }
  })()
  try {
    await writeTo(cli, options, chunks)
  } finally {
    progress?.clear()
  }
  if (output === null) return
  // A script reads the result on stdout; a person is told in a remark.
  if (cli.globals().json) print(cli, { file: output, rows }, () => '')
  else note(cli, `${counted(rows, 'row')} in ${output}.`)
}

/** Throws usage for a file of the database, file_exists for a name that is taken. */
export function refuseTarget(cli: Cli, { output, force }: Target): void {
  if (output === null) return
  refuseDatabaseFile(output, cli.globals().db)
  if (!force && existsSync(output)) throw nameTaken(output)
}

/** Writes to stdout, or to a file that appears whole or not at all. */
export async function writeTo(
  cli: Cli,
  { output, force }: Target,
  chunks: AsyncIterable<string>,
): Promise<void> {
  if (output !== null) return writeFileWhole(output, chunks, { replace: force ?? false })
  for await (const chunk of chunks) await write(cli.streams.out, chunk)
}

async function countLines({ store, periods, filter }: Reading): Promise<number> {
  let lines = 0
  for (const period of periods) lines += await store.countTradeLines(period, filter)
  return lines
}

/** An export as text, in pieces: month after month under one header, and a last row of totals if asked for. */
export async function* textOf(reading: Reading, form: Form): AsyncGenerator<{ text: string; rows: number }> {
  const { columns } = EXPORTS[form.report]
  const json = form.format === 'json'
  let text = (form.bom ? BOM : '') + (json ? '[' : csvHeader(columns))
  let pending = 0
  let first = true
  for await (const page of pagesOf(reading, form)) {
    for (const row of page) {
      text += json ? `${first ? '' : ',\n'}${JSON.stringify(row)}` : csvRow(columns, row)
      first = false
      pending += 1
    }
    if (text.length < CHUNK_CHARS) continue
    yield { text, rows: pending }
    text = ''
    pending = 0
  }
  yield { text: text + (json ? ']\n' : ''), rows: pending }
}

async function* pagesOf(
  { store, periods, filter }: Reading,
  { report, totals: asked }: Form,
): AsyncGenerator<Iterable<Row>> {
  const { columns, pages } = EXPORTS[report]
  const totals = asked ? createTotals(columns.map(({ name }) => name)) : null
  for (const period of periods) {
    for await (const page of pages({ store, period, filter })) yield totals ? totals.adding(page) : page
  }
  if (totals) yield [totals.row()]
}
