// A shell for transcripts: runs command lines in this process, on a real database file, in a world that gives the
// same answers every time.

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import type { TestContext } from 'node:test'
import { plus } from '../../src/core/time.ts'
import { createApp } from '../../src/http/app.ts'
import { type Listener, listenOn } from '../../src/http/listen.ts'
import { silentLog } from '../../src/log.ts'
import { type Machine, machineAt } from '../../src/machine.ts'
import { type Outcome, runHere } from './command.ts'
import { addressIn, openAgain } from './database.ts'
import { T0 } from './service.ts'
import { temporaryFolder } from './temporary-folder.ts'

export type Shell = {
  folder: string
  /** What --db names. */
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
}
export type ShellOptions = {
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
    const app = createApp({ store, machine, guard, log: silentLog, rateLimit: null })
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
  }
}

/** Chance that repeats itself: what it gives depends on how often it was asked before. */
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

/** Runs a command that must succeed, and answers what it printed. */
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

/** One JSON object with a code and a message, on one line, and nothing else. */
export function errorOf(err: string): { code: string; message: string } {
  assert.match(err, /^\{.*\}\n$/)
  const { error, ...rest } = JSON.parse(err)
  assert.deepEqual(rest, {})
  assert.deepEqual(Object.keys(error), ['code', 'message'])
  return error
}
