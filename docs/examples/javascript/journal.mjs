// The journal: a folder with a file for each purchase. It begins in `open`, and moves to `recorded` or to `refused`.

import { spawnSync } from 'node:child_process'
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'

/**
 * `order_key`: what its order is placed under. `report`: what to confirm, once that is known. `refusal`: why the report
 * was refused for good.
 * @typedef {{
 *   execution_id: string,
 *   order_key: string,
 *   amount_usd: string,
 *   report?: string,
 *   refusal?: string,
 * }} Purchase
 * @typedef {'open' | 'recorded' | 'refused'} State
 */

/**
 * In the order in which a purchase is looked for: one that was recorded may come again, and be refused.
 * @type {readonly State[]}
 */
const STATES = ['open', 'refused', 'recorded']

/**
 * Opens the journal of an environment, for this process alone. Throws if it is in use, or is another environment's.
 * @type {(folder: string, environment: string) => ReturnType<typeof journalIn>}
 */
export function openJournal(folder, environment) {
  for (const state of STATES) mkdirSync(join(folder, state), { recursive: true })
  lock(folder)
  for (const created of [folder, join(folder, '..')]) sync(created)
  const mark = join(folder, 'environment')
  const marked = existsSync(mark) ? readFileSync(mark, 'utf8') : ''
  if (marked === '') write(folder, 'environment', environment)
  else if (marked !== environment)
    throw new Error(`${folder} has purchases of another environment than ${environment}`)
  return journalIn(folder)
}

/** @param {string} folder */
function journalIn(folder) {
  /** @type {(state: State, id: string) => string} */
  const nameOf = (state, id) => join(state, `${encodeURIComponent(id)}.json`)
  /** @type {(state: State, purchase: Purchase) => void} */
  const put = (state, purchase) =>
    write(folder, nameOf(state, purchase.execution_id), JSON.stringify(purchase))
  /** @type {(file: string) => Purchase} */
  const read = (file) => {
    try {
      return JSON.parse(readFileSync(join(folder, file), 'utf8'))
    } catch (error) {
      throw new Error(`${join(folder, file)} cannot be read: ${error}`)
    }
  }
  return {
    /**
     * The purchase with this id, and where it is.
     * @type {(id: string) => { state: State, purchase: Purchase } | undefined}
     */
    find(id) {
      const state = STATES.find((one) => existsSync(join(folder, nameOf(one, id))))
      return state && { state, purchase: read(nameOf(state, id)) }
    },
    /** @type {(purchase: Purchase) => void} */
    write: (purchase) => put('open', purchase),
    /** What has no answer yet, oldest first. */
    open: () =>
      readdirSync(join(folder, 'open'))
        .filter((name) => name.endsWith('.json'))
        .sort()
        .map((name) => read(join('open', name))),
    // Should a power cut undo these two, the same report is sent again, and answered as before.
    /** @type {(purchase: Purchase) => void} */
    setRecorded({ execution_id: id }) {
      const file = join(folder, nameOf('open', id))
      if (existsSync(file)) renameSync(file, join(folder, nameOf('recorded', id)))
    },
    /** @type {(purchase: Purchase, refusal: string) => void} */
    setRefused(purchase, refusal) {
      put('refused', { ...purchase, refusal })
      const file = join(folder, nameOf('open', purchase.execution_id))
      if (existsSync(file)) unlinkSync(file)
    },
  }
}

/**
 * Writes a file so that it is on disk, whole, when this returns; a crash in between leaves the one that was there.
 * @type {(folder: string, name: string, text: string) => void}
 */
function write(folder, name, text) {
  const aside = join(folder, 'next')
  const file = openSync(aside, 'w')
  writeFileSync(file, text)
  fsyncSync(file)
  closeSync(file)
  renameSync(aside, join(folder, name))
  sync(join(folder, name, '..'))
}

/** What was created in a folder, or moved into it, is on disk when this returns. @param {string} folder */
function sync(folder) {
  const opened = openSync(folder, 'r')
  fsyncSync(opened)
  closeSync(opened)
}

/**
 * One process works on a journal at a time. `flock` locks the file that it inherits, which stays locked for as long as
 * this process has it open: until it ends, however that comes.
 * @param {string} folder
 */
function lock(folder) {
  const file = openSync(join(folder, 'lock'), 'a')
  const { status, error } = spawnSync('flock', ['-n', '3'], { stdio: ['ignore', 'ignore', 'inherit', file] })
  if (error) console.error(`${folder} is not locked (${error.message}): start this program only once.`)
  else if (status !== 0) throw new Error(`${folder} is in use by another process, or cannot be locked.`)
}
