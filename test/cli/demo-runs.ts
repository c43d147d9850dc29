// The demonstration as tests run it: in a process and a folder of its own, so that the files it leaves can be seen.

import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { after } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import SQLite from 'better-sqlite3'
import type { Printed } from '../../src/cli/demo/show.ts'
import { folderOfProcess } from '../support/database.ts'
import { type Started, start } from '../support/process.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
export const SEED = '7'

export const folder = folderOfProcess()

export type Demo = Started & { place: string }

/** Starts tranche with a temporary folder of its own. */
export function startIn(argv: readonly string[], env: Record<string, string> = {}): Demo {
  const place = mkdtempSync(join(folder, 'run-'))
  return { ...start({ after }, argv, { cwd: ROOT, env: { ...env, TMPDIR: place } }), place }
}

/** A whole demonstration with that seed; its database is not removed. */
export const startInJson = (): Demo => startIn(['--json', 'demo', '--seed', SEED, '--keep'])

/** Its whole output, parsed. */
export async function printedBy(demo: Demo): Promise<Printed> {
  assert.equal(await demo.ended, 0, demo.err())
  return JSON.parse(demo.out()) as Printed
}

/** Waits until the demonstration running in this folder has recorded such a trade, and opens its database. */
export async function openOnce(
  { hasEnded, place, err }: Demo,
  condition = 'usd_amount is not null',
): Promise<SQLite.Database> {
  for (;;) {
    const [name] = readdirSync(place)
    const file = join(place, name ?? '', 'tranche.db')
    if (name !== undefined && existsSync(file)) {
      const db = new SQLite(file)
      if (hasTrade(db, condition)) return db
      db.close()
    }
    if (hasEnded()) assert.fail(`it ended early: ${err()}`)
    await pause(20)
  }
}

function hasTrade(db: SQLite.Database, condition: string): boolean {
  try {
    return db.prepare(`select 1 from trades where ${condition}`).get() !== undefined
  } catch (error) {
    // The schema is still being made.
    if (error instanceof SQLite.SqliteError) return false
    throw error
  }
}
