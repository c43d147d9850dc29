// Writing an export: row by row, to a pipe or to a file that appears only when it is whole.

import { existsSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { BOM, csvHeader, csvRow } from '../../billing/csv.ts'
import { EXPORTS, type ReportKind } from '../../billing/export.ts'
import type { TenantFilter } from '../../store/partners.ts'
import { refuseDatabaseFile } from '../../store/sqlite/file/own-files.ts'
import type { Store } from '../../store/store.ts'
import { nameTaken, writeFileWhole } from '../../whole-file.ts'
import type { Cli } from '../context.ts'
import { counted } from '../terminal/numbers.ts'
import { note, print, write } from '../terminal/print.ts'
import { createProgress } from '../terminal/progress.ts'
import { fixPeriodFor, noteStage } from './period.ts'

export type ExportOptions = {
  month: string
  report: ReportKind
  format: 'csv' | 'json'
  /** Null for stdout. */
  output: string | null
  bom?: boolean
  force?: boolean
}

/** Text gathered before it is written: a write for every row would be slow. */
const CHUNK_CHARS = 64 * 1024

type Export = { store: Store; filter: TenantFilter; options: ExportOptions }

export async function exportMonth(cli: Cli, { store, filter, options }: Export): Promise<void> {
  const { output } = options
  // Rows live for a moment. Left to itself V8 would rather grow its nursery to many times what they need.
  setFlagsFromString('--semi-space-growth-factor=1')
  if (output !== null) refuseDatabaseFile(output, cli.globals().db)
  if (output !== null && !options.force && existsSync(output)) throw nameTaken(output)
  const period = await fixPeriodFor(cli, store, { month: options.month, filter })
  noteStage(cli, period)
  // Rows on the same screen are progress enough; a bar between them would spoil both.
  const screen = output === null && cli.streams.out.isTTY
  const watched = cli.streams.err.isTTY && !screen
  const total = watched ? await totalOf(store, { period, filter, options }) : 0
  const progress = watched ? createProgress(cli.streams, () => 'exporting') : null
  let rows = 0
  const chunks = (async function* () {
    for await (const text of textOf({ store, period, filter }, options)) {
      rows += text.rows
      if (total > 0) progress?.show(rows / total)
      yield text.text
    }
  })()
  try {
    if (output === null) for await (const chunk of chunks) await write(cli.streams.out, chunk)
    else await writeFileWhole(output, chunks, { replace: options.force ?? false })
  } finally {
    progress?.clear()
  }
  if (output === null) return
  // A script reads the result on stdout; a person is told in a remark.
  if (cli.globals().json) print(cli, { file: output, rows }, () => '')
  else note(cli, `${counted(rows, 'row')} in ${output}.`)
}

type Reading = Parameters<(typeof EXPORTS)['summary']['pages']>[0]

async function totalOf(
  store: Store,
  { period, filter, options }: Pick<Reading, 'period' | 'filter'> & { options: ExportOptions },
) {
  return options.report === 'trades' ? store.countTradeLines(period, filter) : 0
}

async function* textOf(
  reading: Reading,
  options: ExportOptions,
): AsyncGenerator<{ text: string; rows: number }> {
  const { columns, pages } = EXPORTS[options.report]
  const json = options.format === 'json'
  let text = (options.bom ? BOM : '') + (json ? '[' : csvHeader(columns))
  let pending = 0
  let first = true
  for await (const page of pages(reading)) {
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
