// The base of most tests: the real service, on a real file, over real HTTP, with a clock that the test sets.

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { type AddressInfo, connect, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { Readable, Writable } from 'node:stream'
import type { TestContext } from 'node:test'
import type { Command } from 'commander'
import { everyCommand } from '../../src/cli/help.ts'
import { createProgram } from '../../src/cli/program.ts'
import { createSandboxDesk } from '../../src/cli/service/sandbox-desk.ts'
import { price } from '../../src/core/money.ts'
import type { Environment } from '../../src/core/partner.ts'
import { type Instant, plus } from '../../src/core/time.ts'
import { type PassResult, runPass } from '../../src/engine/pass.ts'
import { type AppOptions, createApp } from '../../src/http/app.ts'
import { type Listener, listenOn } from '../../src/http/listen.ts'
import { createOpsApp } from '../../src/http/ops/endpoints.ts'
import { issueKey as makeKey } from '../../src/keys.ts'
import { type Log, silentLog } from '../../src/log.ts'
import { type Machine, machineAt, machine as thisMachine } from '../../src/machine.ts'
import { run } from '../../src/main.ts'
import type { Store } from '../../src/store/store.ts'
import { createGuard, parseCidr } from '../../src/webhook/address-guard.ts'
import type { SendWakeUp } from '../../src/webhook/wake-partners.ts'
import { addressIn, openAgain, openNew, temporaryFolder } from './database.ts'

// Command lines run in this process, where a test sets the clock, the environment, the input and the terminals.

export type Outcome = { code: number; out: string; err: string }
export type Surroundings = {
  machine?: Machine
  env?: Record<string, string>
  input?: string | NodeJS.ReadableStream
  /** The outputs that are a terminal. */
  terminals?: readonly ('stdout' | 'stderr')[]
}

/** Runs one command line to its end. By default it has the real clock, an empty environment and no terminal. */
export async function runHere(
  argv: readonly string[],
  { machine = thisMachine, env = {}, input = '', terminals = [] }: Surroundings = {},
): Promise<Outcome> {
  const out = capture(terminals.includes('stdout'))
  const err = capture(terminals.includes('stderr'))
  const stdin = typeof input === 'string' ? Readable.from([Buffer.from(input)]) : input
  const code = await run(argv, { streams: { out, err, in: stdin }, machine, endSoon: ofItsOwn, env })
  return { code, out: out.text(), err: err.text() }
}

/** A command that listens to signals, and may be ended by a timer, would end the tests with it. */
function ofItsOwn(): never {
  throw new Error('this command belongs in a process of its own (support/process.ts)')
}

/** The command tree itself, in which no command can hide. */
export function commandTree(): Command {
  const streams = { out: capture(false), err: capture(false), in: Readable.from([]) }
  return createProgram(
    { streams, machine: thisMachine, exitWith: () => {}, endSoon: () => {} },
    { remark: () => '', json: false },
  ).program
}

/** The words of every command of the tree, the program's own (none) included. */
export function everyPath(): string[][] {
  const paths: string[][] = []
  everyCommand(commandTree(), (_, path) => paths.push([...path]))
  return paths
}

/** A stream that stores everything written to it. */
export function capture(isTTY: boolean): Writable & { isTTY: boolean; text: () => string } {
  const chunks: string[] = []
  const stream = new Writable({
    write(chunk, _, done) {
      chunks.push(String(chunk))
      done()
    },
  })
  return Object.assign(stream, { isTTY, text: () => chunks.join('') })
}

export const T0 = Date.UTC(2026, 0, 5) as Instant

// biome-ignore lint/suspicious/noExplicitAny: an answer's JSON is what the test is about to check
type Answer = { status: number; headers: Headers; body: any }
export type CallOptions = { key?: string | null; headers?: Record<string, string> }

export type Service = {
  store: Store
  /** The value of --db. */
  file: string
  url: string
  /** The listener of operations; empty for a service without. */
  opsUrl: string
  /** A key of the partner "acme", for the test environment unless told otherwise: the default of every call. */
  key: string
  now: () => Instant
  setClock: (now: Instant) => void
  advance: (ms: number) => void
  /** `body` is sent as JSON, a string or bytes as they are. */
  call: (method: string, path: string, body?: unknown, options?: CallOptions) => Promise<Answer>
  tick: (priceUsd?: string) => Promise<PassResult>
  issueKey: (slug: string, environment: Environment) => Promise<string>
}

export type ServiceOptions = {
  rateLimit?: number | null
  /** Of the default key. */
  environment?: Environment
  log?: Log
  /** Wraps the store for HTTP: as the real one with a method that fails, say. */
  wrap?: (store: Store) => Store
  /** Further options of the app. */
  more?: (store: Store, machine: Machine) => Partial<AppOptions>
}

export const notDelivered: SendWakeUp = async () => ({
  statusCode: null,
  reason: 'this service sends nothing',
  durationMs: 0,
})

export const AUDIT = { osUser: 'test', action: 'test', subject: 'test', detail: {} }

/** Starts the service with a partner and a key; stops it when the test ends. */
export async function startService(
  t: Pick<TestContext, 'after'>,
  {
    rateLimit = null,
    environment = 'test',
    log = silentLog,
    wrap = (store) => store,
    more,
  }: ServiceOptions = {},
): Promise<Service> {
  const { machine, setClock } = machineAt(T0)
  const folder = temporaryFolder(t)
  const store = await openNew(folder, machine.clock)
  const guard = createGuard({ allow: [parseCidr('127.0.0.0/8')] })
  const options: AppOptions = {
    store: wrap(store),
    machine,
    guard,
    send: notDelivered,
    log,
    rateLimit,
    sandbox: createSandboxDesk({ store, machine, send: notDelivered, log }),
    ...more?.(store, machine),
  }
  const where = { host: '127.0.0.1', port: 0, tls: null, uuid: machine.uuid }
  const listener = await listenOn(createApp(options), where)
  const { ops } = options
  const own = ops ? await listenOn(createOpsApp({ ops, log, uuid: machine.uuid }), where) : null
  t.after(async () => {
    await Promise.all([listener.close(), own?.close()])
    await store.close()
  })

  const issueKey = async (slug: string, environment: Environment): Promise<string> => {
    if (!(await store.findPartner(slug))) await store.addPartner({ partnerSlug: slug, name: slug }, AUDIT)
    const tenant = await store.findTenant(slug, environment)
    if (!tenant) throw new Error(`no tenant ${slug} ${environment}`)
    const { record, secret } = makeKey({ tenant, label: null, lifetimeMs: null }, machine)
    await store.addKey(record, AUDIT)
    return secret
  }
  const key = await issueKey('acme', environment)

  return {
    store,
    file: addressIn(folder),
    url: listener.url,
    opsUrl: own?.url ?? '',
    key,
    now: machine.clock,
    setClock,
    advance: (ms) => setClock(plus(machine.clock(), ms)),
    issueKey,

    async call(method, path, body, options = {}) {
      const bearer = options.key === undefined ? key : options.key
      const raw = typeof body === 'string' || body instanceof Uint8Array
      const response = await fetch(listener.url + path, {
        method,
        headers: { ...(bearer !== null && { authorization: `Bearer ${bearer}` }), ...options.headers },
        ...(body !== undefined && { body: raw ? (body as string) : JSON.stringify(body) }),
      })
      const text = await response.text()
      const answer = {
        status: response.status,
        headers: response.headers,
        body: text === '' ? null : JSON.parse(text),
      }
      // In every test, the answers must match the API description. Loaded at the first call, because many tests make
      // none.
      const { assertAccepted, assertDescribed } = await import('../openapi/described.ts')
      assertDescribed(method, path, answer)
      if (answer.status === 200 && body !== undefined && !raw) assertAccepted(method, path, body)
      return answer
    },

    async tick(priceUsd) {
      const seen = priceUsd === undefined ? null : { price: price(priceUsd), source: 'test' }
      const observe = async () => ({ price: seen, testimony: 'none' as const })
      const report = await runPass({ store, machine, observe })
      if (!report) throw new Error('another tick is running')
      return report
    },
  }
}

export const USER = {
  partner_user_id: 'u1',
  consent_accepted: true,
  consent_version: 'v1',
  consent_timestamp: '2026-01-01T00:00:00Z',
}
export const PLAN = { partner_user_id: 'u1', partner_plan_id: 'p1', amount_usd: '60.00', frequency: 'daily' }

/** A confirmation that fills an execution with `usd`, wholly or in part. */
export const fill = (order: string, usd: string, status: 'filled' | 'partial' = 'filled') => ({
  partner_order_id: order,
  status,
  usd_amount: usd,
  btc_amount: '0.00100000',
  execution_price: '60000.00',
})

// A shell for transcripts: runs command lines in this process, on a real database file, in a world that gives the same
// answers every time.

export type Shell = {
  folder: string
  /** The value of --db. */
  file: string
  machine: Machine
  advance: (ms: number) => void
  /** Runs one command; `terminal` makes stdout one. */
  tranche: (argv: readonly string[], options?: ShellOptions) => Promise<Outcome>
  /** Calls the API that serves the same file; started at the first call. */
  call: (
    method: string,
    path: string,
    key: string,
    body?: string,
  ) => Promise<{ status: number; text: string }>
  /** As call, with bodies as values; the path goes on from /partner/v1/. */
  ask: (key: string, method: string, path: string, body?: object) => Promise<Omit<Answer, 'headers'>>
}
type ShellOptions = {
  terminal?: boolean
  env?: Record<string, string>
  input?: string | NodeJS.ReadableStream
}

export function openShell(t: Pick<TestContext, 'after'>): Shell {
  const folder = temporaryFolder(t)
  const file = addressIn(folder)
  const { machine: clockwork, setClock } = machineAt(T0)
  const machine: Machine = { ...clockwork, ...steadyChance(), osUser: () => 'ops' }
  let api: Promise<Listener> | undefined

  async function serve(): Promise<Listener> {
    const store = await openAgain(file, machine.clock)
    const guard = { checkUrl: async () => {} }
    const options = { store, machine, guard, send: notDelivered, log: silentLog, rateLimit: null }
    const app = createApp(options)
    const listener = await listenOn(app, { host: '127.0.0.1', port: 0, tls: null, uuid: machine.uuid })
    t.after(async () => {
      await listener.close()
      await store.close()
    })
    return listener
  }

  return {
    folder,
    file,
    machine,
    advance: (ms) => setClock(plus(machine.clock(), ms)),

    tranche: (argv, { terminal = false, env = {}, input = '' } = {}) =>
      runHere(['--db', file, ...argv], {
        machine,
        env,
        input,
        terminals: terminal ? ['stdout', 'stderr'] : [],
      }),

    async call(method, path, key, body) {
      api ??= serve()
      const { url } = await api
      const headers = { authorization: `Bearer ${key}` }
      const response = await fetch(url + path, { method, headers, ...(body !== undefined && { body }) })
      return { status: response.status, text: await response.text() }
    },

    async ask(key, ...asked) {
      api ??= serve()
      const { url } = await api
      return callAt({ url, key }, ...asked)
    },
  }
}

/** Repeatable random values: they depend on the number of earlier calls. */
function steadyChance(): Pick<Machine, 'random' | 'uuid'> {
  let asked = 0
  const next = () => createHash('sha256').update(String(asked++)).digest()
  return {
    random: (bytes) => {
      const made = Buffer.alloc(bytes)
      for (let at = 0; at < bytes; at += 32) next().copy(made, at)
      return made
    },
    uuid: () => next().toString('hex').slice(0, 32),
  }
}

/** Runs a command that must succeed, and answers its output. */
export async function succeed(shell: Pick<Shell, 'tranche'>, ...argv: string[]): Promise<string> {
  const { code, out, err } = await shell.tranche(argv)
  assert.equal(code, 0, `${argv.join(' ')}: ${out}${err}`)
  return out
}

/** A shell whose database has the partner beta. */
export async function withPartner(t: Pick<TestContext, 'after'>): Promise<Shell> {
  const shell = openShell(t)
  await succeed(shell, 'migrate')
  await succeed(shell, 'partner', 'create', 'beta', '--name', 'Beta')
  return shell
}

/** A single JSON object with a code and a message, on one line, and nothing else. */
export function errorOf(err: string): { code: string; message: string } {
  assert.match(err, /^\{.*\}\n$/)
  const { error, ...rest } = JSON.parse(err)
  assert.deepEqual(rest, {})
  assert.deepEqual(Object.keys(error), ['code', 'message'])
  return error
}

// Calls of a serve that runs as a process of its own.

export const me = (url: string, key: string): Promise<Response> =>
  fetch(`${url}/partner/v1/me`, { headers: { authorization: `Bearer ${key}`, connection: 'close' } })

/** A call whose path goes on from /partner/v1/. A text is sent as it is. */
export async function callAt(
  { url, key }: { url: string; key: string },
  method: string,
  path: string,
  body?: object | string,
): Promise<Answer> {
  const headers = { authorization: `Bearer ${key}`, connection: 'close' }
  const sent = typeof body === 'string' ? body : JSON.stringify(body)
  const answer = await fetch(`${url}/partner/v1/${path}`, { method, headers, ...(sent && { body: sent }) })
  return { status: answer.status, headers: answer.headers, body: await answer.json() }
}

/** Makes calls of the API that must be answered with 200. */
export const callerOf =
  (url: string, key: string) =>
  async <T>(method: string, path: string, body?: object): Promise<T> => {
    const answer = await callAt({ url, key }, method, path.slice(1), body)
    assert.equal(answer.status, 200, `${method} ${path}: ${JSON.stringify(answer.body)}`)
    return answer.body as T
  }

/** A folder with a database, where serve finds it by default, and a key. */
export async function withKey(t: Pick<TestContext, 'after'>): Promise<{ cwd: string; key: string }> {
  const shell = openShell(t)
  assert.equal((await shell.tranche(['partner', 'create', 'acme', '--name', 'Acme'])).code, 0)
  const { out } = await shell.tranche(['key', 'create', 'acme', '--env', 'test'])
  return { cwd: shell.folder, key: out.trim() }
}

/**
 * Runs, in this process, a serve whose options must be refused before anything is opened: there is no database in the
 * folder, and none is made. Accepted options fail as well, for lack of a database.
 */
export async function serveRefused(cwd: string, ...argv: string[]): Promise<Outcome> {
  const outcome = await runHere(['--db', join(cwd, 'no.db'), 'serve', '--no-create', '--port', '0', ...argv])
  assert.ok(!existsSync(join(cwd, 'no.db')))
  return outcome
}

type LogEntry = { level: string; message: string; fields: Record<string, unknown> }

/** A log that stores its lines; `failures` are the warnings and errors among them. */
export function recordingLog() {
  const entries: LogEntry[] = []
  const at = (level: string) => (fields: object, message: string) =>
    void entries.push({ level, message, fields: fields as Record<string, unknown> })
  const log: Log = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
  const failures = () => entries.filter(({ level }) => level === 'warn' || level === 'error')
  return { log, entries, failures }
}

/** A call that the service has begun to read: it has been told to continue, and half of the body is still to come. */
export function halfSent(url: string, key: string): Promise<{ finish: () => Promise<number> }> {
  const { hostname, port } = new URL(url)
  const body = JSON.stringify(USER)
  const socket = connect(Number(port), hostname)
  const head = [
    'POST /partner/v1/users HTTP/1.1',
    `Host: ${hostname}`,
    `Authorization: Bearer ${key}`,
    `Content-Length: ${body.length}`,
    'Expect: 100-continue',
  ]
  let received = ''
  const until = (pattern: RegExp): Promise<RegExpExecArray> =>
    new Promise((resolve, reject) => {
      const look = (): void => {
        const found = pattern.exec(received)
        if (found) resolve(found)
      }
      socket.on('data', look).on('close', () => reject(new Error(`closed after ${received}`)))
      look()
    })
  socket.setEncoding('utf8').on('data', (text) => (received += text))
  // A service that is killed resets the connection; that is not a failure of the test.
  socket.on('error', () => {})
  socket.write(`${head.join('\r\n')}\r\n\r\n`)
  return until(/^HTTP\/1\.1 100/).then(() => {
    socket.write(body.slice(0, 10))
    return {
      finish: async () => {
        socket.write(body.slice(10))
        const [, status] = await until(/HTTP\/1\.1 ([2-5]\d\d)/)
        return Number(status)
      },
    }
  })
}

// Opens a server of a test's own on a free port of loopback, until the test ends.

export type Listening = {
  port: number
  /** Sockets opened to it, with or without requests. */
  connections: () => number
}

/** Connections still open when the test ends are cut. */
export async function listen(
  t: Pick<TestContext, 'after'>,
  server: Server,
  host = '127.0.0.1',
): Promise<Listening> {
  const open = new Set<Socket>()
  let connections = 0
  server.on('connection', (socket: Socket) => {
    connections += 1
    open.add(socket)
    socket.on('error', () => {}).on('close', () => open.delete(socket))
  })
  server.on('tlsClientError', () => {})
  server.listen(0, host)
  await once(server, 'listening')
  t.after(async () => {
    const closed = once(server, 'close')
    server.close()
    for (const socket of open) socket.destroy()
    await closed
  })
  return { port: (server.address() as AddressInfo).port, connections: () => connections }
}
