// What a run leaves behind, as JSON: all that was measured, and on what.

import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { availableParallelism, cpus, totalmem } from 'node:os'
import { join } from 'node:path'
import SQLite from 'better-sqlite3'
import { formatInstant } from '../../src/core/time.ts'
import { machine } from '../../src/machine.ts'
import type { Options } from './options.ts'
import type { Failure, Result } from './row.ts'

const ROOT = join(import.meta.dirname, '../..')
const GIB = 2 ** 30

export type Report = {
  at: string
  /** Of the commit that was measured, with `-dirty` when the tree had changes beside it. */
  commit: string
  quick: boolean
  machine: {
    cores: number
    processor: string
    memoryGib: number
    node: string
    sqlite: string
    /** The version of the server that was measured; left out for a file. */
    postgres?: string
    system: string
  }
  rows: (Result | Failure)[]
}

/** What a report says of a run before there is anything measured: later the tree may be another one. */
export async function reportHead({
  store,
  quick,
}: Pick<Options, 'store' | 'quick'>): Promise<Omit<Report, 'rows'>> {
  const postgres =
    store === 'file' ? {} : { postgres: await (await import('./postgres/cluster.ts')).versionOfServer() }
  return {
    at: formatInstant(machine.clock()),
    commit: commit(),
    quick,
    machine: { ...thisMachine(), ...postgres },
  }
}

export const readReport = (file: string): Report => JSON.parse(readFileSync(file, 'utf8')) as Report

function thisMachine(): Report['machine'] {
  const db = new SQLite(':memory:')
  const sqlite = db.prepare<[], string>('select sqlite_version()').pluck().get() ?? ''
  db.close()
  return {
    cores: availableParallelism(),
    processor: cpus()[0]?.model ?? '',
    memoryGib: Math.round(totalmem() / GIB),
    node: process.versions.node,
    sqlite,
    system: `${process.platform} ${process.arch}`,
  }
}

/** The sources may come without git. */
function commit(): string {
  try {
    return execFileSync('git', ['describe', '--always', '--dirty', '--exclude', '*'], {
      cwd: ROOT,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim()
  } catch {
    return ''
  }
}
