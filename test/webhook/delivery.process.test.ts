// Wake-ups from the program itself: cron's tick, serve's own scheduler, and a tick that is killed.

import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { machine } from '../../src/machine.ts'
import { allExecutions, each } from '../store/world.ts'
import { refuse, rowsOf } from '../support/database.ts'
import { finish, start, startServe } from '../support/process.ts'
import { runHere } from '../support/service.ts'
import {
  type Answering,
  LOOPBACK,
  PRICE,
  type Receiver,
  type Stage,
  startMute,
  startReceiver,
  startStage,
} from './stage.ts'

const executionIds = async (stage: Stage): Promise<string[]> =>
  (await allExecutions(stage.store)).map(({ executionId }) => executionId).sort()
const bodies = ({ received }: Receiver): { count: number; earliest_execution_id: string }[] =>
  received.map(({ raw }) => JSON.parse(raw.toString()))

/** A stage whose clock is the real one, for the processes that share its file have no other. */
async function startReal(t: TestContext) {
  const stage = await startStage(t)
  stage.setClock(machine.clock())
  const { caFile, folder } = stage.authority
  const flags = ['--webhook-allow-cidr', LOOPBACK, '--webhook-ca', caFile]
  const shell = { cwd: folder }
  return {
    stage,
    shell,
    flags,
    tickArgv: ['--db', stage.file, '--json', 'tick', '--price', PRICE],
    serveArgv: ['--db', stage.file, '--tick-every', '1s', '--price-feed', `static:${PRICE}`, ...flags],
    receive: (answer?: Answering) => startReceiver(t, stage.authority.issue('IP:127.0.0.1'), answer),
    failedSoFar: async (consecutiveFailures: number): Promise<void> => {
      const tenant = await stage.tenant()
      await stage.store.changeWebhook(tenant, (seen) => ({ ...(seen ?? assert.fail()), consecutiveFailures }))
    },
  }
}

const PROCESSES: Record<string, (t: TestContext) => Promise<void>> = {
  'tick delivers what it created before it exits, past any proxy, under the prefix of the environment':
    async (t) => {
      const { stage, shell, flags, tickArgv, receive } = await startReal(t)
      const receiver = await receive()
      const proxy = await startMute(t)
      await stage.register(receiver.port)
      await stage.addPlan('u1')
      const address = `http://127.0.0.1:${proxy.port}`
      const proxies = ['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY', 'http_proxy', 'https_proxy', 'all_proxy']
      const env = {
        ...Object.fromEntries(proxies.map((name) => [name, address])),
        NO_PROXY: '',
        NODE_USE_ENV_PROXY: '1',
        TRANCHE_WEBHOOK_HEADER_PREFIX: 'X-Brand',
      }
      const { code, out, err } = await finish(t, [...tickArgv, ...flags], { ...shell, env })
      assert.deepEqual([code, err], [0, ''])
      const { executions_created, webhooks_sent, webhooks_failed } = JSON.parse(out)
      assert.deepEqual([executions_created, webhooks_sent, webhooks_failed], [1, 1, 0])
      assert.equal(receiver.received.length, 1)
      assert.match(String(receiver.received[0]?.headers['x-brand-signature']), /^sha256=[0-9a-f]{64}$/)
      assert.equal(proxy.connections(), 0)
    },
  'a webhook that cannot be handed out costs the wake-up, not the pass': async (t) => {
    const { stage, flags, tickArgv, receive } = await startReal(t)
    const receiver = await receive()
    await stage.register(receiver.port)
    await stage.addPlan('u1')
    const rows = await rowsOf(t, stage.file)
    await refuse(rows, { verb: 'update', table: 'webhook_events', message: 'no room' })
    const { code, out, err } = await runHere([...tickArgv, ...flags])
    assert.equal(code, 0)
    assert.equal(JSON.parse(out).executions_created, 1)
    assert.deepEqual(JSON.parse(err), { warnings: ['webhooks failed: no room'] })
  },
  'a tick killed while its receiver hangs is not made up for later': async (t) => {
    const { stage, shell, flags, tickArgv, receive } = await startReal(t)
    const receiver = await receive((response) => {
      if (receiver.received.length > 1) response.writeHead(204).end()
    })
    await stage.register(receiver.port)
    await stage.addPlan('u1')
    const killed = start(t, [...tickArgv, ...flags], shell)
    await receiver.count(1)
    killed.child.kill('SIGKILL')
    assert.equal(await killed.ended, 'SIGKILL')

    const idle = await runHere([...tickArgv, ...flags])
    assert.equal(JSON.parse(idle.out).webhooks_sent, 0)
    assert.equal(receiver.received.length, 1)
    await stage.addPlan('u2')
    const next = await runHere([...tickArgv, ...flags])
    assert.equal(JSON.parse(next.out).webhooks_sent, 1)
    const [first, second] = await executionIds(stage)
    assert.deepEqual(each(bodies(receiver), 'count'), [1, 1])
    assert.deepEqual(each(bodies(receiver), 'earliest_execution_id'), [first, second])
    assert.equal((await stage.webhook()).consecutiveFailures, 0)
  },
  'a slow receiver holds up neither another partner nor the next pass; serve warns and drains': async (t) => {
    const { stage, shell, serveArgv, receive, failedSoFar } = await startReal(t)
    const release = Promise.withResolvers<void>()
    let ended = false
    const slow = await receive(async (response) => {
      response.on('close', () => {
        ended = true
      })
      await release.promise
      response.writeHead(500).end()
    })
    const fast = await receive()
    const secret = await stage.register(slow.port)
    await failedSoFar(4)
    const other = await stage.issueKey('other', 'live')
    await stage.register(fast.port, '/', other)
    await stage.addPlan('slow')
    await stage.addPlan('f0', other)
    const served = await startServe(t, serveArgv, shell)
    await slow.count(1)
    for (let pass = 1; pass <= 2; pass += 1) {
      await fast.count(pass)
      await stage.addPlan(`f${pass}`, other)
    }
    assert.equal(ended, false, 'two passes came and went while one receiver was asked')
    assert.equal(slow.received.length, 1)
    // A stop lets the delivery in progress finish.
    served.child.kill('SIGTERM')
    await served.line('stopping')
    assert.equal(ended, false)
    release.resolve()
    const warning = JSON.parse(await served.line('has failed 5 times in a row'))
    const said = { level: 'warn', partner_slug: 'acme', environment: 'test', reason: 'HTTP 500' }
    assert.partialDeepStrictEqual(warning, said)
    assert.equal(await served.ended, 0)
    assert.equal((await stage.webhook()).lastStatusCode, 500)
    assert.ok(!served.err().includes(secret))
  },
}

suite('deliveries by processes', { concurrency: 3 }, () => {
  for (const [name, run] of Object.entries(PROCESSES)) test(name, run)
})
