// A process that has the program in it, and that can be told to die at one of its calls to the database.

import SQLite from 'better-sqlite3'
import { openFile } from '../../../src/store/sqlite/file/connection.ts'
import type { Death } from '../action.ts'
import type { Deed } from '../request.ts'
import { hostHere } from '../system/host.ts'
import type { FiredSeen, Lines, Seen } from '../system/observed.ts'
import { firedAfter } from '../system/pass.ts'
import { onSqlite } from '../system/sqlite.ts'

export type Secrets = [label: string, of: { keyId: string; secret: string }][]
export type Ask =
  | { ask: 'open'; file: string; seed: number; start: number; secrets: Secrets; death: Death | null }
  | { ask: 'perform'; deed: Deed; death: Death | null }
  | { ask: 'firstFault' | 'firstTaken' | 'record' | 'close' }
  | { ask: 'fired'; after: string | null }
export type Told =
  | { told: 'opened' | 'closed' }
  | { told: 'seen'; seen: Seen; secrets: Secrets }
  | { told: 'firstFault' | 'firstTaken'; fault: string | null }
  | { told: 'record'; record: Lines }
  | { told: 'fired'; fired: FiredSeen[] }
  | { told: 'threw'; message: string }

let death: Death | null = null
let host: Awaited<ReturnType<typeof hostHere>> | undefined

/** Before and after every call to the database: what is between two of them is never cut in half. */
function boundary(isCommit: boolean): void {
  if (!death || (death.of === 'commits' && !isCommit)) return
  death.at -= 1
  // It cannot be caught, and nothing after it runs.
  if (death.at === 0) process.kill(process.pid, 'SIGKILL')
}

function watchDatabaseCalls(): void {
  const db = openFile(':memory:')
  const statement = Object.getPrototypeOf(SQLite.prototype.prepare.call(db, 'select 1'))
  const watched: [object: Record<string, (...given: unknown[]) => unknown>, names: string[]][] = [
    [statement, ['run', 'get', 'all', 'iterate']],
    [SQLite.prototype as never, ['exec', 'pragma']],
  ]
  for (const [object, names] of watched) {
    for (const name of names) {
      const original = object[name] as (...given: unknown[]) => unknown
      object[name] = function (this: object, ...given: unknown[]) {
        const isCommit = isCommitting(this, given)
        boundary(isCommit)
        const result = original.apply(this, given)
        boundary(isCommit)
        return result
      }
    }
  }
  db.close()
}

/** Whether a call is a commit: of a prepared statement, or as text. */
const isCommitting = (statement: object, [text]: unknown[]): boolean =>
  ('source' in statement ? statement.source : text) === 'commit'

watchDatabaseCalls()
process.on('message', async (ask: Ask) => {
  try {
    process.send?.(await answer(ask))
  } catch (error) {
    process.send?.({ told: 'threw', message: (error as Error).stack ?? String(error) } satisfies Told)
  }
})

async function answer(ask: Ask): Promise<Told> {
  death = 'death' in ask ? ask.death : null
  if (ask.ask === 'open') {
    const { file, seed, start, secrets } = ask
    host = await hostHere({ ...onSqlite(file), seed, start, secrets: new Map(secrets) })
    death = null
    return { told: 'opened' }
  }
  if (!host) throw new Error('nothing is open')
  switch (ask.ask) {
    case 'perform': {
      const seen = await host.perform(ask.deed)
      death = null
      return { told: 'seen', seen, secrets: [...host.system.secrets] }
    }
    case 'firstFault':
      return { told: 'firstFault', fault: await host.firstFault() }
    case 'firstTaken':
      return { told: 'firstTaken', fault: await host.firstTaken() }
    case 'record':
      return { told: 'record', record: await host.record() }
    case 'fired':
      return { told: 'fired', fired: await firedAfter(host.system.store, ask.after) }
    case 'close':
      await host.close()
      return { told: 'closed' }
  }
}
