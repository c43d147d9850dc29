// serve on a server that goes away as soon as it has begun: a service that listens does not end for it.

import assert from 'node:assert/strict'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { temporaryFolder } from '../support/database.ts'
import { ourServer, ownDatabase } from '../support/postgres-server.ts'
import { startServe } from '../support/process.ts'
import { me } from '../support/service.ts'
import { hasTool } from '../support/tools.ts'

/**
 * A way to a database that is closed to everybody from the moment that somebody asks `question`, until it is opened.
 */
async function wayClosedAt(t: TestContext, url: string, question: string) {
  const { folder } = await ourServer()
  const sockets = new Set<Socket>()
  let isClosed = false
  let wasMet = false
  const listener = createServer((client) => {
    if (isClosed) return void client.destroy()
    const server = connect(`${folder}/.s.PGSQL.5432`)
    for (const socket of [client, server]) {
      sockets.add(socket)
      socket.on('error', () => {}).on('close', () => sockets.delete(socket))
    }
    server.on('close', () => client.destroy()).pipe(client)
    client
      .on('close', () => server.destroy())
      .on('data', (bytes: Buffer) => {
        if (!wasMet && bytes.includes(question)) {
          wasMet = true
          isClosed = true
          for (const socket of sockets) socket.destroy()
        } else server.write(bytes)
      })
  })
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    listener.close()
  })
  const { port } = listener.address() as AddressInfo
  return {
    url: `postgres://tranche@127.0.0.1:${port}${new URL(url).pathname}`,
    wasMet: () => wasMet,
    open: () => {
      isClosed = false
    },
  }
}

test('a server that goes away while serve looks whether it has a partner: it stays, and goes on', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const cwd = temporaryFolder(t)
  const way = await wayClosedAt(t, await ownDatabase(cwd), 'from partners order by created_at')
  const serve = await startServe(t, [], { cwd, env: { TRANCHE_DB: way.url } })
  const putOff = await me(serve.url, 'none')
  assert.ok([401, 503].includes(putOff.status), String(putOff.status))
  while (!way.wasMet()) await new Promise((resolve) => setTimeout(resolve, 20))
  // Long enough for a client that would give up: it tries three times within a fifth of a second.
  const key = `sse_test_${'a'.repeat(46)}`
  for (let asked = 0; asked < 20; asked++) {
    const { status } = await fetch(`${serve.url}/readyz`)
    assert.ok([200, 503].includes(status))
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  assert.equal(serve.hasEnded(), false, serve.err())
  way.open()
  assert.equal((await me(serve.url, key)).status, 401)
})
