// Four services, four tickers, a partner in its two environments, and the pair of servers that all of them work on.

import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { seededRandom } from '../../../src/engine/backtest.ts'
import { machine } from '../../../src/machine.ts'
import { proxyTo } from '../../support/cutting-proxy.ts'
import { finish, type Started, start } from '../../support/process.ts'
import { within } from '../../support/within.ts'
import { createCalls } from './calls.ts'
import { type Cluster, startCluster } from './cluster.ts'
import { type Host, SCHEDULED, startService, startTicks } from './hosts.ts'
import { createPartner, type Partner } from './partner.ts'

export type Scene = {
  cluster: Cluster
  /** The way of the first service and the first ticker to the server. */
  proxy: Awaited<ReturnType<typeof proxyTo>>
  services: readonly Host[]
  tickers: readonly Host[]
  partners: readonly [live: Partner, test: Partner]
  /** Decides what is done to whom; what the partner does is decided by another one. */
  random: () => number
  start: (argv: readonly string[]) => Started
  /** Runs a command that must end with 0; answers what it printed. */
  run: (argv: readonly string[]) => Promise<string>
  /** Ends everything; as an operator would, unless something has failed. */
  end: (failed: boolean) => Promise<void>
}

const COMMAND_MAX_MS = 120_000
/** An advance takes a sandbox's plans through days. */
const PLANS_MAX = { live: Number.POSITIVE_INFINITY, test: 40 }

export async function openScene(seed: number): Promise<Scene> {
  const folder = mkdtempSync(join(tmpdir(), 'tranche-hosts-'))
  const random = seededRandom(seed)
  const children = new Set<Started['child']>()
  const ends: (() => unknown)[] = []
  const ending = { after: (end: () => unknown) => void ends.push(end) }
  const follow = (started: Started): Started => {
    children.add(started.child)
    started.ended.then(() => children.delete(started.child))
    return started
  }
  const cluster = await startCluster()
  const proxy = await proxyTo(ending, { folder: cluster.current }, 'tranche')
  const place = (db: string) => ({ folder, db, follow })
  const options = { cwd: folder, env: { TRANCHE_DB: cluster.url } }
  const never = { after: () => {} }

  async function run(argv: readonly string[]): Promise<string> {
    const done = await within(COMMAND_MAX_MS, argv.join(' '), finish(never, argv, options))
    assert.equal(done.code, 0, `${argv.join(' ')}: ${done.out}${done.err}`)
    return done.out
  }

  await run(['partner', 'create', 'acme', '--name', 'Acme'])
  const keyOf = async (env: string): Promise<string> =>
    JSON.parse(await run(['key', 'create', 'acme', '--env', env, '--json'])).key
  const keys = { live: await keyOf('live'), test: await keyOf('test') }
  const [direct, cut] = [place(cluster.url), place(proxy.url)]
  const services = await Promise.all(
    [cut, direct, direct, direct].map((where, i) => startService(`serve ${i + 1}`, where, [])),
  )
  const scheduling = await Promise.all(
    [cut, direct].map((where, i) => startService(`ticker ${i + 1}`, where, SCHEDULED)),
  )
  const tickers = [...scheduling, startTicks('ticker 3', direct), startTicks('ticker 4', direct)]
  const working = seededRandom(seed + 1)
  const partnerIn = (environment: 'live' | 'test') =>
    createPartner(environment, {
      calls: createCalls(keys[environment], services, working),
      random: working,
      clock: machine.clock,
      plansMax: PLANS_MAX[environment],
    })
  return {
    cluster,
    proxy,
    services,
    tickers,
    partners: [partnerIn('live'), partnerIn('test')],
    random,
    start: (argv) => follow(start(never, argv, options)),
    run,

    async end(failed) {
      try {
        await Promise.all([...services, ...tickers].map((host) => host.end(failed)))
      } finally {
        for (const child of children) child.kill('SIGKILL')
        for (const end of ends) await end()
        await cluster.stop()
        rmSync(folder, { recursive: true, force: true })
      }
    },
  }
}
