// A shell for transcripts: runs command lines in this process, on a real database file, in a world that gives the
// same answers every time.

import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { Readable, Writable } from 'node:stream'
import type { TestContext } from 'node:test'
import { plus } from '../../src/core/instant.ts'
import { createApp } from '../../src/http/app.ts'
import { type Listener, listenOn } from '../../src/http/listen.ts'
import { silentLog } from '../../src/log.ts'
import { type Machine, machineAt } from '../../src/machine.ts'
import { run } from '../../src/main.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import { T0, temporaryFolder } from './service.ts'

export type Outcome = { code: number; out: string; err: string }
export type Shell = {
  folder: string
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
export type ShellOptions = { terminal?: boolean; env?: Record<string, string>; input?: NodeJS.ReadableStream }

export function openShell(t: Pick<TestContext, 'after'>): Shell {
  const folder = temporaryFolder(t)
  const file = join(folder, 'tranche.db')
  const { machine: clockwork, setClock } = machineAt(T0)
  const machine: Machine = { ...clockwork, ...steadyChance(), osUser: () => 'ops' }
  let api: Promise<Listener> | undefined

  async function serve(): Promise<Listener> {
    const store = await openStore(file, { clock: machine.clock, create: false })
    const guard = { checkUrl: async () => {} }
    const app = createApp({ store, machine, guard, log: silentLog, rateLimit: null })
    const listener = await listenOn(app, { host: '127.0.0.1', port: 0, tls: null, uuid: machine.uuid })
    t.after(async () => {
      await listener.close()
      store.close()
    })
    return listener
  }

  return {
    folder,
    file,
    machine,
    advance: (ms) => setClock(plus(machine.clock(), ms)),

    async tranche(argv, { terminal = false, env = {}, input = Readable.from([]) } = {}) {
      const out = capture(terminal)
      const err = capture(terminal)
      const streams = { out, err, in: input }
      const code = await run(['--db', file, ...argv], { streams, machine, env })
      return { code, out: out.text(), err: err.text() }
    },

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
export function steadyChance(): Pick<Machine, 'random' | 'uuid'> {
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
