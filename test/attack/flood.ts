// One key calls at full speed over 64 connections, in several ways: what the others notice of it. Run by .ci/run, with
// a serve of its own: `node --import tsx test/attack/flood.ts [executable]`. Says where a goal is missed, and exits 1
// when one is missed by far. A machine that has other things to do is slower at everything: a server that does nothing
// is flooded in the same way first.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { Agent, createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join, resolve } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { issueKey } from '../../src/keys.ts'
import { machine } from '../../src/machine.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import { temporaryFolder } from '../support/database.ts'
import { addCrowd } from '../support/large-database.ts'
import { finish, type Program, SOURCE, start } from '../support/process.ts'
import { AUDIT, USER } from '../support/service.ts'

const CONNECTIONS = 64
const FLOOD_MS = 4_000
const WARM_UP_MS = 1_000
/** On a quiet machine: a call of somebody else, /healthz, and a command of an operator's. */
const GOALS_MS = { other: 100, health: 50, command: 1_000 }
/** A machine that is shared misses a goal by chance; what an attack does was seconds. */
const BY_FAR = 5
/** What the 99th percentile of a server that does nothing may be before the goals grow with it. */
const FLOOR_MS = 10
const CROWD = 20_000

type Ask = { method: string; path: string; body?: unknown }
const FLOODS: Record<string, Ask> = {
  'GET /me': { method: 'GET', path: '/partner/v1/me' },
  'GET /executions/due': { method: 'GET', path: '/partner/v1/executions/due' },
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

/** In a process of its own: calls without a break until it is ended. */
async function flood(url: string, key: string, what: string): Promise<void> {
  const each = FLOODS[what] as Ask
  let calls = 0
  setInterval(() => process.stdout.write(`${calls}\n`), 200)
  const connection = async (): Promise<void> => {
    for (;;) {
      await ask(url, key, each)
      calls += 1
    }
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, connection))
}

/** Calls one after the other, some milliseconds apart. Returns the 99th percentile of what they took. */
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

/** In a process of its own, which has nothing else to do: what three callers notice, as JSON. */
async function sampleAll(url: string, key: string): Promise<void> {
  const [read, write, health] = await Promise.all([
    sample(url, key, { method: 'GET', path: '/partner/v1/me' }),
    sample(url, key, { method: 'POST', path: '/partner/v1/users', body: USER }),
    sample(url, null, HEALTH),
  ])
  process.stdout.write(`${JSON.stringify({ read, write, health })}\n`)
}

/** In a process of its own: a server that answers and does nothing else. */
async function bare(): Promise<void> {
  const server = createServer((_, response) => response.end('{}')).listen(0, '127.0.0.1')
  await once(server, 'listening')
  process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}\n`)
}

/** Another process of this file. It has said its first word when this resolves. */
async function another(...argv: string[]) {
  const child = spawn(process.execPath, [...process.execArgv, import.meta.filename, ...argv])
  let said = ''
  child.stdout.on('data', (text) => {
    said = String(text).trim()
  })
  await once(child.stdout, 'data')
  const end = async () => {
    child.kill()
    await once(child, 'close')
  }
  return { said: () => said, end }
}

/** How much slower than it should be this machine is just now. */
async function slowness(): Promise<number> {
  const server = await another('bare')
  const flood = await another(server.said(), 'none', 'GET /me')
  const p99 = await sample(server.said(), null, HEALTH)
  await flood.end()
  await server.end()
  process.stdout.write(`${'a server that does nothing'.padEnd(22)}: p99 ${p99.toFixed(1)} ms\n`)
  return Math.max(1, p99 / FLOOR_MS)
}

type Place = { stage: { after: (clean: () => unknown) => void }; cwd: string; program: Program }

/** Starts serve with its log in a file, as a service has it: a reader of a pipe would slow it down. */
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
  url: string
  /** Runs an operator's command; answers how long it took. */
  command: (...argv: string[]) => Promise<number>
  attacker: string
  other: string
  /** A key to revoke. */
  spare: () => Promise<{ keyId: string }>
}

/** What is noticed of one flood, as a multiple of the goal that it misses most. */
async function noticed(what: string, { url, command, attacker, other, spare }: Scene): Promise<number> {
  const { keyId } = await spare()
  const flooding = await another(url, attacker, what)
  // A process that has just been started compiles what it runs; that is over soon, and not what a flood does.
  await wait(WARM_UP_MS)
  const sampling = await another('sample', url, other)
  const { read, write, health } = JSON.parse(sampling.said())
  await sampling.end()
  // What a command takes that only reads is what it costs to start one beside the flood.
  const start = await command('key', 'list', 'gone')
  const revoke = (await command('key', 'revoke', keyId)) - start
  const disable = (await command('partner', 'disable', 'gone')) - start
  const calls = flooding.said()
  await flooding.end()
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
  let slow = await slowness()
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
      url,
      command,
      attacker: crowd.secret,
      other: other.secret,
      spare: () => keyOf('gone'),
    }
    for (const what of Object.keys(FLOODS)) {
      const times = await noticed(what, scene)
      // It may have become busier than it was. What is flooded again would not be the same: a disable is done once.
      if (times / slow >= BY_FAR) slow = Math.max(slow, await slowness())
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

const [first, ...rest] = process.argv.slice(2)
if (first === 'bare') await bare()
else if (first === 'sample') {
  await sampleAll(rest[0] ?? '', rest[1] ?? '')
  agent.destroy()
} else if (rest.length === 2) await flood(first ?? '', rest[0] ?? '', rest[1] ?? '')
else process.exitCode = (await attack(first === undefined ? SOURCE : [resolve(first)])) ? 0 : 1
