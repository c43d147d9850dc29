// Writes an export row by row, to a pipe or to a file that appears only when it is complete.

import { existsSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { type Form, type Reading, textOf } from '../../billing/export-text.ts'
import { counted } from '../../core/counted.ts'
import type { TenantFilter } from '../../store/partners.ts'
import type { Store } from '../../store/store.ts'
import { nameTaken, writeFileWhole } from '../../whole-file.ts'
import type { Cli } from '../context.ts'
import { note, print, write } from '../terminal/print.ts'
import { createProgress } from '../terminal/progress.ts'
import { fixPeriodFor, noteStage } from './month-not-final.ts'

/** Where a result goes: null for stdout. */
export type Target = { output: string | null; force?: boolean }
export type ExportOptions = Target & Form

type Export = { store: Store; months: readonly string[]; filter: TenantFilter; options: ExportOptions }

export async function exportMonths(cli: Cli, { store, months, filter, options }: Export): Promise<void> {
  const { output } = options
  await refuseTarget(cli, options)
  collectOften()
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
  // A script reads the result on stdout; a person gets a remark.
  if (cli.globals().json) print(cli, { file: output, rows }, () => '')
  else note(cli, `${counted(rows, 'row')} in ${output}.`)
}

/** Rows live only for a moment. Left to itself, V8 would grow its nursery to many times what they need. */
export const collectOften = (): void => setFlagsFromString('--semi-space-growth-factor=1')

/** Throws usage for a file of the database, file_exists for a name that is taken. */
export async function refuseTarget(cli: Cli, { output, force }: Target): Promise<void> {
  if (output === null) return
  const database = await cli.database()
  database.refuseOutput(output)
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
