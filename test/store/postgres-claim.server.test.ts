// A hand of a pass whose connection breaks just when it is given a page: the page is of that pass all the same.

import assert from 'node:assert/strict'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { machineAt } from '../../src/machine.ts'
import { openStore } from '../../src/store/postgres/open.ts'
import { temporaryFolder } from '../support/database.ts'
import { ourServer, ownDatabase } from '../support/postgres-server.ts'
import { hasTool } from '../support/tools.ts'
import { link, populate, sendPlan, T0, tick } from './world.ts'

/** What a server says of a statement that has deleted one row. */
const DELETED_ONE = Buffer.from('DELETE 1\0')
/** Three pages. */
const PLANS = 600

/** A way to the server on which the first answer of that kind is lost, with its connection. */
async function losing(t: TestContext, socket: string) {
  let lost = 0
  const sockets = new Set<Socket>()
  const listener = createServer((client) => {
    const upstream = connect(socket)
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(one)
      one.on('error', () => {}).on('close', () => other.destroy())
    }
    client.on('data', (bytes) => upstream.write(bytes))
    upstream.on('data', (bytes: Buffer) => {
      if (lost === 0 && bytes.includes(DELETED_ONE)) {
        lost += 1
        client.destroy()
      } else client.write(bytes)
    })
  })
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    for (const one of sockets) one.destroy()
    listener.close()
  })
  return { port: (listener.address() as AddressInfo).port, lost: () => lost }
}

test('a page whose claim is answered into the void is not left to the next pass', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const url = await ownDatabase(join(temporaryFolder(t), 'claim'))
  const { machine } = machineAt(T0)
  const store = await openStore(url, { clock: machine.clock, create: false })
  t.after(() => store.close())
  const { acme } = await populate(store)
  await link(store, acme)
  const names = Array.from({ length: PLANS }, (_, i) => `p${i}`)
  await Promise.all(names.map((partnerPlanId) => sendPlan(store, acme, { partnerPlanId })))

  const proxy = await losing(t, `${(await ourServer()).folder}/.s.PGSQL.5432`)
  const way = `postgres://tranche@127.0.0.1:${proxy.port}${new URL(url).pathname}`
  const far = await openStore(way, { clock: machine.clock, create: false })
  t.after(() => far.close())
  const { executionsCreated, whole } = await tick({ store: far, machine }, '60000')
  assert.equal(proxy.lost(), 1)
  assert.deepEqual([executionsCreated, whole?.executionsCreated], [PLANS, PLANS])
})
