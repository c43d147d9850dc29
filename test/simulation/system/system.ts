// The program itself, all of it but sockets and processes: the store on a real file, the API, the scheduler, the wake-ups
// and what an operator does, under a clock and a chance that the simulation holds.

import type { Instant } from '../../../src/core/instant.ts'
import { plus } from '../../../src/core/instant.ts'
import { createApp } from '../../../src/http/app.ts'
import { silentLog } from '../../../src/log.ts'
import type { Machine } from '../../../src/machine.ts'
import type { Store } from '../../../src/store/store.ts'
import { chanceOf } from '../chance.ts'
import type { ApiRequest, Deed } from '../request.ts'
import { exportText } from './export-text.ts'
import { pull } from './lever.ts'
import type { Answered, Seen } from './observed.ts'
import { rehearse, runOnePass } from './pass.ts'

export type System = {
  store: Store
  perform: (deed: Deed) => Promise<Seen>
  /** The secrets of the keys, by label: for a process that goes on where this one ended. */
  secrets: Map<string, { keyId: string; secret: string }>
  close: () => void
}

export type SystemOptions = {
  open: (clock: () => Instant) => Promise<Store>
  /** Opens another connection and writes through it until it is told to end. */
  holdLock: () => () => void
  /** What the store's own data would take that breaks a rule, should the program try: tried, and taken back. */
  forbidden: () => string[]
  seed: number
  start: number
  secrets?: System['secrets']
}

/** What the parts of the system share. */
export type Parts = Pick<System, 'store' | 'secrets'> & {
  machine: Machine
  /** Makes a call of the API. */
  call: (request: ApiRequest) => Promise<Answered>
}

export async function openSystem(options: SystemOptions): Promise<System> {
  const { open, holdLock, seed, start, secrets = new Map() } = options
  let now = start as Instant
  const chance = chanceOf(seed)
  const machine: Machine = {
    clock: () => now,
    random: chance.bytes,
    uuid: () => Buffer.from(chance.bytes(16)).toString('hex'),
    osUser: () => 'simulation',
  }
  const store = await open(machine.clock)
  const guard = { checkUrl: async () => {} }
  const app = createApp({ store, machine, guard, log: silentLog, rateLimit: null })

  async function call({ key, method, path, body }: ApiRequest): Promise<Answered> {
    const headers = { authorization: `Bearer ${secrets.get(key)?.secret ?? 'unknown'}` }
    const init = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) }
    const response = await app.fetch(new Request(`http://simulation${path}`, init))
    const text = await response.text()
    return {
      status: response.status,
      body: JSON.parse(text),
      dueRemaining: response.headers.get('x-due-remaining'),
    }
  }

  const parts: Parts = { store, secrets, machine, call }
  return {
    store,
    secrets,
    async perform(deed): Promise<Seen> {
      switch (deed.do) {
        case 'clock':
          now = plus(now, deed.by)
          return { do: 'clock' }
        case 'call':
          return { do: 'call', pages: await callPages(call, deed) }
        case 'together':
          return { do: 'together', answers: await Promise.all(deed.calls.map(call)) }
        case 'locked': {
          const release = holdLock()
          const answer = call(deed.call)
          await new Promise((resolve) => setTimeout(resolve, 2))
          release()
          return { do: 'call', pages: [await answer] }
        }
        case 'pass':
          return { do: 'pass', pass: await runOnePass(parts, deed) }
        case 'rehearse':
          return { do: 'rehearse', fired: await rehearse(parts, deed.price) }
        case 'lever':
          return { do: 'lever', refused: await pull(parts, deed) }
        case 'export':
          return { do: 'export', text: await exportText(store, deed) }
      }
    },
    close: () => store.close(),
  }
}

/** One answer, or those of all pages of a listing. */
async function callPages(call: Parts['call'], request: ApiRequest): Promise<Answered[]> {
  const pages = [await call(request)]
  for (let last = pages[0]; request.pages; ) {
    const { next_cursor: cursor } = (last?.body ?? {}) as { next_cursor?: string | null }
    if (typeof cursor !== 'string') break
    last = await call({ ...request, path: `${request.path}&cursor=${encodeURIComponent(cursor)}` })
    pages.push(last)
  }
  return pages
}
