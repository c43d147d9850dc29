// Whose wait for a standby is ended by somebody: what is on one disk alone is not told as done.

import { test } from 'node:test'
import { openStore } from '../../src/store/postgres/open.ts'
import { assertNotToldAlone, ourPair } from '../support/postgres-server.ts'
import { hasTool } from '../support/tools.ts'
import { link, populate, T0 } from './world.ts'

// The server tells of a commit that was cancelled in a warning: the database asks for less than that, or for much more.
for (const [how, ending, heard] of [
  ['its process is ended', 'pg_terminate_backend', 'debug5'],
  ['it is cancelled', 'pg_cancel_backend', 'error'],
] as const)
  test(`a commit that waits for a standby is not told as done when ${how}, until both have it`, async (t) => {
    if (!hasTool(t, 'postgres')) return
    const pair = await ourPair()
    await pair.primary.ask(`create database ${ending}`)
    await pair.primary.ask(`alter database ${ending} set client_min_messages = ${heard}`)
    const store = await openStore(pair.primary.url(ending), { clock: () => T0, create: true })
    t.after(() => store.close())
    const { acme } = await populate(store)
    await assertNotToldAlone(t, pair, ending, (holdBack) => {
      holdBack()
      return link(store, acme)
    })
  })

test('the schema of a new database is not told as made on one disk alone', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const pair = await ourPair()
  await pair.primary.ask('create database new')
  await assertNotToldAlone(t, pair, 'pg_cancel_backend', async (holdBack) => {
    holdBack()
    const store = await openStore(pair.primary.url('new'), { clock: () => T0, create: true })
    await store.close()
  })
})
