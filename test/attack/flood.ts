// Measures how much other callers notice when one key calls at full speed over 64 connections, in several ways. Run by
// .ci/run, with a serve of its own: `node --import tsx test/attack/flood.ts [executable]`. Reports each goal missed,
// and exits 1 when one is missed by far. A busy machine is slower at everything, so a server that does nothing is
// flooded in the same way first.

import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { join, resolve } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { issueKey } from '../../src/keys.ts'
import { machine } from '../../src/machine.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import { startBare, startHelper } from '../bench/helper.ts'
import { head } from '../http/raw.ts'
import { temporaryFolder } from '../support/database.ts'
import { addCrowd } from '../support/large-database.ts'
import { finish, type Program, SOURCE, start } from '../support/process.ts'
import { AUDIT, USER } from '../support/service.ts'
import type { Done, Job } from './stampede.ts'

const CONNECTIONS = 64
const FLOOD_MS = 4_000
const WARM_UP_MS = 1_000
/** On a quiet machine: a call of another partner, /healthz, and an operator's command. */
const GOALS_MS = { other: 100, health: 50, command: 1_000 }
/** A shared machine misses a goal by chance; the attacks that were found cost seconds. */
const BY_FAR = 5
/** The 99th percentile that a server that does nothing may have before the goals grow with it. */
const FLOOR_MS = 10
const CROWD = 20_000

type Ending = { after: (clean: () => unknown) => void }
type Ask = { method: string; path: string; body?: unknown }
const FLOODS: Record<string, Ask> = {
  'GET /me': { method: 'GET', path: '/partner/v1/me' },
  'GET /executions/due': { method: 'GET', path: '/partner/v1/executions/due' },
  'GET /executions': { method: 'GET', path: '/partner/v1/executions?limit=500' },
  'GET /billing/monthly': { method: 'GET', path: '/partner/v1/billing/monthly?month=2026-01' },
  'POST /users': { method: 'POST', path: '/partner/v1/users', body: USER },
  'PATCH /users': { method: 'PATCH', path: '/partner/v1/users/crowd', body: { status: 'disabled' } },
}

const HEALTH: Ask = { method: 'GET', path: '/healthz' }

const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS })

async function ask(url: string, key: string | null, { method, path, body }: Ask): Promise<number> {
  const headers = {
    ...(key !== null && { authorization: `Bearer ${key}` }),
    ...(body !== undefined && { 'content-type': 'application/json' }),
  }
  const call = request(url + path, { method, agent, headers }).end(
    body === undefined ? '' : JSON.stringify(body),
  )
  const [response] = await once(call, 'response')
  response.resume()
  await once(response, 'end')
  return response.statusCode
}

/** Starts a flood from a process of its own. The returned function ends it and answers how many calls were answered. */
async function flood(stage: Ending, url: string, key: string, { method, path, body }: Ask) {
  const text = body === undefined ? '' : JSON.stringify(body)
  const lines = text === '' ? [] : ['Content-Type: application/json', `Content-Length: ${text.length}`]
  const script = join(import.meta.dirname, 'stampede.ts')
  const { ask } = await startHelper<Job, Done>(stage, script)
  const requests = [head(method, path, key, lines) + text]
  await ask({ kind: 'flood', url, connections: CONNECTIONS, requests })
  return async (): Promise<number> => (await ask({ kind: 'stop' })).calls
}

/** Calls one after the other, some milliseconds apart. Returns the 99th percentile of their durations. */
async function sample(url: string, key: string | null, each: Ask): Promise<number> {
  const times: number[] = []
  for (const until = performance.now() + FLOOD_MS; performance.now() < until; ) {
    const from = performance.now()
    if ((await ask(url, key, each)) !== 200) throw new Error(`${each.path} was refused`)
    times.push(performance.now() - from)
    await wait(10)
  }
  return times.sort((a, b) => a - b)[Math.floor(times.length * 0.99)] ?? Number.NaN
}

/** How much slower this machine is now than it should be. */
async function slowness(stage: Ending & { folder: string }): Promise<number> {
  const { url } = await startBare(stage, 'node:http')
  const endFlood = await flood(stage, url, 'none', HEALTH)
  const p99 = await sample(url, null, HEALTH)
  await endFlood()
  process.stdout.write(`${'a server that does nothing'.padEnd(22)}: p99 ${p99.toFixed(1)} ms\n`)
  return Math.max(1, p99 / FLOOR_MS)
}

type Place = { stage: Ending; cwd: string; program: Program }

/** Starts serve with its log in a file, as a service has it: a pipe's reader would slow it down. */
async function serveInto(log: string, { stage, cwd, program }: Place): Promise<string> {
  const shell: Program = ['/bin/sh', '-c', `exec "$@" 2> '${log}'`, 'sh', ...program]
  const { ended } = start(stage as never, ['serve', '--port', '0'], { cwd, program: shell })
  let hasEnded = false
  ended.then(() => {
    hasEnded = true
  })
  while (!hasEnded) {
    await wait(20)
    const listening = /^\{.*"msg":"listening"\}$/m.exec(existsSync(log) ? readFileSync(log, 'utf8') : '')
    if (listening) return JSON.parse(listening[0]).url
  }
  throw new Error(`serve ended: ${readFileSync(log, 'utf8')}`)
}

type Scene = {
  stage: Ending
  url: string
  /** Runs an operator's command; answers how long it took. */
  command: (...argv: string[]) => Promise<number>
  attacker: string
  other: string
  /** A key to revoke. */
  spare: () => Promise<{ keyId: string }>
}

/** The worst effect of one flood, as a multiple of its goal. */
async function noticed(
  what: string,
  { stage, url, command, attacker, other, spare }: Scene,
): Promise<number> {
  const { keyId } = await spare()
  const endFlood = await flood(stage, url, attacker, FLOODS[what] as Ask)
  // A new process compiles its code first; that is over soon, and not an effect of the flood.
  await wait(WARM_UP_MS)
  const [read, write, health] = await Promise.all([
    sample(url, other, { method: 'GET', path: '/partner/v1/me' }),
    sample(url, other, { method: 'POST', path: '/partner/v1/users', body: USER }),
    sample(url, null, HEALTH),
  ])
  // A command that only reads shows the cost of starting one beside the flood.
  const start = await command('key', 'list', 'gone')
  const revoke = (await command('key', 'revoke', keyId)) - start
  const disable = (await command('partner', 'disable', 'gone')) - start
  const calls = await endFlood()
  const ms = (value: number) => `${Math.round(value)} ms`.padStart(8)
  process.stdout.write(
    `${what.padEnd(22)} others' GET p99 ${ms(read)}, POST p99 ${ms(write)}, /healthz p99 ${ms(health)}, ` +
      `key revoke ${ms(revoke)}, partner disable ${ms(disable)}, ${calls} calls\n`,
  )
  return Math.max(
    Math.max(read, write) / GOALS_MS.other,
    health / GOALS_MS.health,
    Math.max(revoke, disable) / GOALS_MS.command,
  )
}

async function attack(program: Program): Promise<boolean> {
  const cleanUps: (() => unknown)[] = []
  const stage = { after: (clean: () => unknown) => void cleanUps.push(clean) }
  const cwd = temporaryFolder(stage as Parameters<typeof temporaryFolder>[0])
  const file = join(cwd, 'tranche.db')
  const store = await openStore(file, { clock: machine.clock, create: true })
  const keyOf = async (slug: string) => {
    const tenant = await store.findTenant(slug, 'test')
    if (!tenant) throw new Error(`no tenant ${slug}`)
    const { record, secret } = issueKey({ tenant, label: null, lifetimeMs: null }, machine)
    await store.addKey(record, AUDIT)
    return { keyId: record.keyId, secret, tenantId: tenant.tenantId }
  }
  for (const slug of ['crowd', 'other', 'gone'])
    await store.addPartner({ partnerSlug: slug, name: slug }, AUDIT)
  const [crowd, other] = [await keyOf('crowd'), await keyOf('other')]
  addCrowd(file, crowd.tenantId, { user: 'crowd', plans: CROWD, status: 'pending' })
  let slow = await slowness({ ...stage, folder: cwd })
  let held = true
  try {
    const url = await serveInto(join(cwd, 'serve.log'), { stage, cwd, program })
    const command = async (...argv: string[]): Promise<number> => {
      const from = performance.now()
      const { code, err } = await finish(stage as never, argv, { cwd, program })
      if (code !== 0) throw new Error(`${argv.join(' ')}: ${code} ${err}`)
      return performance.now() - from
    }
    const scene: Scene = {
      stage,
      url,
      command,
      attacker: crowd.secret,
      other: other.secret,
      spare: () => keyOf('gone'),
    }
    for (const what of Object.keys(FLOODS)) {
      const times = await noticed(what, scene)
      // The machine may have become busier. The flood cannot be repeated: a partner can be disabled only once.
      if (times / slow >= BY_FAR) slow = Math.max(slow, await slowness({ ...stage, folder: cwd }))
      const missed = times / slow
      if (missed >= 1) process.stdout.write(`${what}: ${missed.toFixed(1)} times a goal\n`)
      held &&= missed < BY_FAR
    }
  } finally {
    agent.destroy()
    await store.close()
    for (const clean of cleanUps.reverse()) await clean()
  }
  return held
}

const [program] = process.argv.slice(2)
process.exitCode = (await attack(program === undefined ? SOURCE : [resolve(program)])) ? 0 : 1
