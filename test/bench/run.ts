// `npm run bench`. Says what it is at on stderr, and prints a table.

import { optionsOrExit } from '../support/runner.ts'
import { onFile } from './backend.ts'
import { bench, optionsOf } from './bench.ts'
import type { Row } from './row.ts'
import { POSTGRES_ROWS, ROWS } from './rows.ts'

const BROKEN_OFF = 130

const options = optionsOrExit((args) =>
  optionsOf(args, { file: namesOf(ROWS), postgres: namesOf(POSTGRES_ROWS) }),
)
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(BROKEN_OFF))
const isOnFile = options.store === 'file'
process.exitCode = await bench(options, {
  on: isOnFile ? onFile : (await import('./postgres.ts')).onPostgres,
  rows: isOnFile ? ROWS : POSTGRES_ROWS,
  note: (text) => void process.stderr.write(`${text}\n`),
  print: (table) => void process.stdout.write(`${table}\n`),
})

function namesOf(rows: readonly Row[]): string[] {
  return rows.map(({ name }) => name)
}
