// Migrations before a service opens its database. SQLite backs up and migrates without a break: minutes in which this
// process would answer nobody. So another process does it.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { isSea } from 'node:sea'
import type { Database } from '../../store/database.ts'

type Aside = { stopped: Promise<unknown>; note: (message: string) => void }

/**
 * Runs `tranche migrate` when the database exists and needs it. If that fails, opening the database afterwards fails in
 * the same way and says so. `stopped` ends it early: a migration is one transaction, so it is undone.
 */
export async function migrateAside(database: Database, db: string, { stopped, note }: Aside): Promise<void> {
  const program = ownProgram()
  if (program === null || !database.migratesAside || !(await isPending(database))) return
  note('migrating the database')
  const child = spawn(process.execPath, [...program, 'migrate', '--db', db, '--json'], { stdio: 'ignore' })
  const ended = once(child, 'close').catch(() => {})
  await Promise.race([ended, stopped.then(() => child.kill())])
}

/** What comes before the arguments when this program is started; null when this process is some other program. */
function ownProgram(): string[] | null {
  if (isSea()) return []
  const script = process.argv[1]
  return script?.endsWith('tranche.mjs') ? [script] : null
}

async function isPending(database: Database): Promise<boolean> {
  const states = await database.migrationStates().catch(() => [])
  return (
    states.some(({ appliedAt }) => appliedAt === null) && states.some(({ appliedAt }) => appliedAt !== null)
  )
}
