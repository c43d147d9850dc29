// A second process for the tests of locks: does one thing to a database and reports its progress on stdout.

import { once } from 'node:events'
import { writeSync } from 'node:fs'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { machine } from '../../src/machine.ts'
import { openFile } from '../../src/store/sqlite/file/connection.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import { AUDIT, link } from './world.ts'

const [verb = '', file = '', argument = ''] = process.argv.slice(2)
const say = (line: string) => writeSync(1, `${line}\n`)
const open = (create = false) => openStore(file, { clock: machine.clock, create })

const VERBS: Record<string, () => Promise<void>> = {
  /** Holds the write lock for so many milliseconds, without a turn of its event loop. */
  async hold() {
    const db = openFile(file)
    db.exec('begin immediate')
    say('held')
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Number(argument))
    db.exec('rollback')
    db.close()
  },

  /** Links one user after the other and reports each once it is stored, until stdin ends. */
  async write() {
    const store = await open()
    const tenant = await store.findTenant('acme', 'test')
    if (!tenant) throw new Error('no tenant')
    process.stdin.resume()
    for (let n = 0; !process.stdin.readableEnded; n++) {
      await link(store, tenant, `${argument}-${n}`)
      say(`${argument}-${n}`)
    }
    await store.close()
  },

  /** Has the database open and does nothing, until stdin ends. */
  async idle() {
    const store = await open()
    say('open')
    process.stdin.resume()
    await once(process.stdin, 'end')
    await store.close()
  },

  /** Opens and closes the database over and over, until stdin ends. */
  async reopen() {
    process.stdin.resume()
    while (!process.stdin.readableEnded) {
      await (await open()).close()
      say('opened')
      await nextTurn()
    }
  },

  /** Opens a database that may not exist yet and adds a partner of its own. */
  async create() {
    say('opening')
    const store = await open(true)
    await store.addPartner({ partnerSlug: argument, name: argument }, AUDIT)
    await store.close()
  },
}

const act = VERBS[verb]
if (!act) throw new Error(`no verb ${verb}`)
await act()
