// A process that proves the whole contract on files, and writes the statements that the program prepared meanwhile to
// the given file, as JSON.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { copyDatabase } from '../../src/copy.ts'
import type { Instant } from '../../src/core/time.ts'
import { fileDatabase } from '../../src/store/sqlite/database.ts'
import { openInMemory } from '../../src/store/sqlite/file/connection.ts'
import { storeContract } from './contract.ts'
import { open } from './sqlite.ts'
import { AUDIT, noted, populate, T0 } from './world.ts'

/** The second frame of a stack: the caller of `prepare`. */
const CALLER = /^.*\n.*\n(.*)/
const seen = new Set<string>()

const any = openInMemory()
const connections = Object.getPrototypeOf(any) as Pick<typeof any, 'prepare'>
any.close()
const { prepare } = connections
connections.prepare = function (this: typeof any, text: string) {
  // A test's own statements are not the program's.
  const [, caller = ''] = CALLER.exec(new Error().stack ?? '') ?? []
  if (caller.includes('/src/')) seen.add(text)
  return prepare.call(this, text)
} as typeof prepare

storeContract('SQLite', new URL('./sqlite.ts', import.meta.url))

test('what the contract leaves out: the page of the operator, a move to another file and back', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'tranche-test-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const store = await open(folder, () => T0)
  await store.sumTradesAfter({ recordedAt: 0 as Instant, executionId: '' as never }, T0, 1)
  await store.listOpenWindows(1)
  await store.listTranches(1)
  await store.samplePrices({ since: 0 as Instant, until: 1 as Instant }, 1)
  await populate(store)
  await store.eraseAgain({ remembered: new Map([['no user has this hash', T0]]), replaced: [] }, noted)
  const executions = { slug: null, environment: null, status: null, stuck: false }
  await store.listExecutions({ ...executions, since: T0 }, { after: null, limit: 1 })
  await store.cursorOfNewest(executions, 1)
  await store.close()
  const [from, to] = [join(folder, 'tranche.db'), join(folder, 'moved.db')].map((file) =>
    fileDatabase(file, () => T0),
  )
  if (!from || !to) throw new Error('two are there')
  const moving = { now: T0, replace: false, kind: 'move', seal: AUDIT, show: () => {} } as const
  await copyDatabase(from, to, moving)
  await from.unseal({ now: T0, audit: noted })
})

after(() => writeFileSync(process.argv[2] ?? '', JSON.stringify([...seen])))
