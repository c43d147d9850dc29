// The program itself, except its sockets and processes: the store on a real file, the API, the scheduler, the wake-ups
// and an operator's deeds, with the simulation's clock and random numbers.

import { type Instant, plus } from '../../../src/core/time.ts'
import { createApp } from '../../../src/http/app.ts'
import { silentLog } from '../../../src/log.ts'
import type { Machine } from '../../../src/machine.ts'
import type { Store } from '../../../src/store/store.ts'
import type { ApiRequest, Deed } from '../action.ts'
import { type Answered, type Lines, NO_NEWS, type Seen } from '../observed.ts'
import { createNewsReader, firedAfter, pull, rehearse, runOnePass } from './deeds.ts'
import { type Access, credit, keep, recordPurchase } from './place.ts'
import { createStrands, exportText, readRecord } from './record.ts'

type System = {
  /** Another store after a restore. */
  store: () => Store
  perform: (deed: Deed) => Promise<Seen>
  /** The secrets of the keys, by label: for the process that continues after this one. */
  secrets: Map<string, { keyId: string; secret: string }>
  close: () => Promise<void>
}

type SystemOptions = { access: Access; seed: number; start: number; secrets?: System['secrets'] }

/** The shared parts of the system. */
export type Parts = Pick<System, 'secrets'> & {
  store: Store
  machine: Machine
  /** Makes a call of the API. */
  call: (request: ApiRequest) => Promise<Answered>
}

/** The receiver of a test: it answers. */
const takes = async () => ({ statusCode: 204, reason: null, durationMs: 5 })

async function openSystem(options: SystemOptions): Promise<System> {
  const { access, seed, start, secrets = new Map() } = options
  let now = start as Instant
  const { bytes, strand } = createStrands(seed)
  const machine: Machine = {
    clock: () => now,
    random: bytes,
    uuid: () => Buffer.from(bytes(16)).toString('hex'),
    osUser: () => 'simulation',
    host: () => 'simulation',
  }
  let opened = await open()
  const keeper = { address: access.address, machine }

  async function open() {
    const store = await access.open(machine.clock)
    const guard = { checkUrl: async () => {} }
    const app = createApp({ store, machine, guard, send: takes, log: silentLog, rateLimit: null })
    const readNews = await createNewsReader(store)
    const parts: Parts = { store, secrets, machine, call }
    return { store, app, readNews, parts }
  }

  async function call({ key, method, path, body }: ApiRequest): Promise<Answered> {
    const headers = { authorization: `Bearer ${secrets.get(key)?.secret ?? 'unknown'}` }
    const init = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) }
    const response = await opened.app.fetch(new Request(`http://simulation${path}`, init))
    const text = await response.text()
    return {
      status: response.status,
      body: JSON.parse(text),
      dueRemaining: response.headers.get('x-due-remaining'),
      code: response.headers.get('x-error-code'),
      retryAfter: response.headers.get('retry-after'),
    }
  }

  async function perform(deed: Deed): Promise<Seen> {
    const { store, parts, readNews } = opened
    switch (deed.do) {
      case 'clock':
        now = plus(now, deed.by)
        return { do: 'clock' }
      case 'call': {
        const pages = await callPages(call, deed)
        // Only refused reports are stored.
        const isRefused = pages.some(({ status }) => status >= 400)
        return { do: 'call', pages, news: isRefused ? await readNews() : NO_NEWS }
      }
      case 'together':
        return { do: 'together', answers: await callTogether(deed), news: await readNews() }
      case 'locked':
        return { do: 'call', pages: [await access.whileLocked(() => call(deed.call))], news: NO_NEWS }
      case 'pass':
        return { do: 'pass', pass: await runOnePass(parts, deed) }
      case 'rehearse':
        return { do: 'rehearse', fired: await rehearse(parts, deed.price) }
      case 'lever': {
        if (deed.lever === 'record') {
          const { executionId: before } = await store.readMarks()
          const refused = await recordPurchase(keeper, deed)
          return { do: 'lever', refused, fired: await firedAfter(store, before) }
        }
        const refused = await pull(parts, deed)
        // Deleted rows free their numbers.
        if (deed.lever === 'reset') opened = { ...opened, readNews: await createNewsReader(store) }
        return { do: 'lever', refused, fired: [] }
      }
      case 'credit':
        return { do: 'credit', credited: await credit(keeper, deed) }
      case 'export':
        return { do: 'export', text: await exportText(store, deed) }
      case 'restore':
        await store.close()
        await keep(keeper, 'restore')
        opened = await open()
        return { do: 'restore' }
      default:
        await keep(keeper, deed.do)
        return { do: deed.do }
    }
  }

  /** Simultaneously, or one after the other when their order is known. */
  async function callTogether({ calls, order }: Extract<Deed, { do: 'together' }>): Promise<Answered[]> {
    const ready = calls.map((request) => {
      const own = strand()
      return () => own(() => call(request))
    })
    if (!order) return Promise.all(ready.map((make) => make()))
    const answers: Answered[] = []
    for (const at of order) {
      const make = ready[at]
      if (make) answers[at] = await make()
    }
    return answers
  }

  return {
    store: () => opened.store,
    secrets,
    perform: (deed) => strand()(() => perform(deed)),
    close: () => opened.store.close(),
  }
}

/** A single answer, or those of all pages of a listing. */
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

// The process of the program: this one, or one that can be killed.

export type Host = {
  perform: (deed: Deed) => Promise<Seen>
  /** The first finding of `check`, or null. */
  firstFault: () => Promise<string | null>
  record: () => Promise<Lines>
  close: () => Promise<void>
}

export async function hostHere(options: SystemOptions): Promise<Host & { system: System }> {
  const system = await openSystem(options)
  return {
    system,
    perform: system.perform,
    async firstFault() {
      const [fault] = await system.store().findFaults()
      return fault ? `${fault.kind}: ${fault.subject} ${fault.message}` : null
    },
    record: () => readRecord(system.store()),
    close: system.close,
  }
}
