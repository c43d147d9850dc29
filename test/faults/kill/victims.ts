// What is killed: each victim is started on the scene's database or on a copy, and says what must hold once it is dead.

import type { Started } from '../../support/process.ts'
import * as files from './files.ts'
import * as own from './own-database.ts'
import type { Scene } from './scene.ts'

export type Attempt = {
  started: Started
  /** The database it works on. */
  file: string
  /** What goes on while it lives, ended by its death. */
  meanwhile?: Promise<void>
  /** Looks at what it left; `code` is how it ended. */
  after?: (code: number | string) => Promise<void>
}

export type Victim = {
  name: string
  /** Whether it runs until it is killed. */
  endless?: true
  /** Starts it, ready to be killed. */
  begin: (scene: Scene) => Promise<Attempt>
}

const PLANS_OF_A_TICK = 40
const SCHEDULED = ['--tick-every', '1s', '--price-feed', 'static:60000']

const serve: Victim = {
  name: 'serve',
  endless: true,
  async begin({ serve: startService, test, live, file, served }) {
    // A first round has nothing to poll.
    if (live.plans.size === 0) await served((url) => live.enrol(url, 10))
    const started = await startService(...SCHEDULED)
    let dead = false
    started.child.once('exit', () => {
      dead = true
    })
    const works = [test, live].map((partner) => partner.work(started.url, () => dead))
    return { started, file, meanwhile: Promise.all(works).then(() => {}) }
  },
}

const serveStart: Victim = {
  name: 'serve, starting',
  endless: true,
  begin: async ({ start, file }) => ({ started: start(['serve', '--port', '0', ...SCHEDULED]), file }),
}

const tick: Victim = {
  name: 'tick',
  async begin({ start, served, live, file }) {
    await served((url) => live.enrol(url, PLANS_OF_A_TICK))
    return { started: start(['tick', '--price', '60000']), file }
  },
}

const keyCreate: Victim = {
  name: 'key create',
  async begin({ start, keys, file }) {
    const started = start(['key', 'create', 'acme', '--env', 'test', '--json'])
    const noteKey = async () => {
      const [shown] = /sse_test_\w{46}(?=")/.exec(started.out()) ?? []
      if (shown !== undefined) keys.add(shown)
    }
    return { started, file, after: noteKey }
  },
}

const advance: Victim = {
  name: 'sandbox advance',
  async begin({ start, served, test, random, file }) {
    if (test.plans.size === 0) await served((url) => test.enrol(url, 10))
    const hours = 1 + Math.floor(random() * 36)
    return { started: start(['sandbox', 'advance', 'acme', `${hours}h`, '--price', '60000']), file }
  },
}

export const VICTIMS: readonly Victim[] = [
  serve,
  tick,
  advance,
  { name: 'billing export', begin: files.beginExport },
  { name: 'backup', begin: files.beginBackup },
  { name: 'restore', begin: files.beginRestore },
  { name: 'price import', begin: own.beginImport },
  { name: 'migrate', begin: own.beginMigration },
  keyCreate,
  serveStart,
]
