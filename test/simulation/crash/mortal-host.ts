// The program in a process that can be killed, and started again on the same file.

import { type ChildProcess, fork } from 'node:child_process'
import { COMPILED } from '../../support/compiled.ts'
import { Difference } from '../difference.ts'
import type { Deed } from '../request.ts'
import type { Host } from '../system/host.ts'
import type { FiredSeen, LateSeen, Seen } from '../system/observed.ts'
import { accessTo, type Place } from '../system/place.ts'
import type { Ask, Secrets, Severed, Told, Trouble } from './process.ts'

export type MortalHost = Host & {
  /** Performs a deed in trouble. What was killed on the way has to be started again. */
  attempt: (deed: Deed, trouble: Trouble) => Promise<Attempt>
  /** What fired, and what was kept, behind these. */
  readNews: (after: {
    execution: string | null
    late: number
  }) => Promise<{ fired: FiredSeen[]; late: LateSeen[] }>
  /** Starts the process again at this time. It may be killed while it opens the data, and is started once more. */
  restart: (now: number, trouble: Trouble | null) => Promise<void>
}

export type Attempt =
  | { came: 'through'; seen: Seen; severed: Severed | null }
  /** A connection was lost, and the process goes on. */
  | { came: 'to nothing'; severed: Severed; message: string }
  | { came: 'to an end' }

export async function openMortalHost(of: { place: Place; seed: number; start: number }): Promise<MortalHost> {
  let secrets: Secrets = []
  let child = start()
  let lives = 0

  async function open(now: number, trouble: Trouble | null): Promise<boolean> {
    lives += 1
    const { place, seed } = of
    // Chance goes on from elsewhere: what is drawn at random is never drawn twice.
    const told = await ask(child, { ask: 'open', place, seed: seed + lives, start: now, secrets, trouble })
    if (told?.told === 'threw') throw new Difference(told.message)
    return told !== null
  }

  async function demand<K extends Told['told']>(question: Ask, kind: K) {
    const told = await ask(child, question)
    if (told?.told === kind) return told as Told & Record<'told', K>
    throw new Difference(told?.told === 'threw' ? told.message : `the process ended at ${question.ask}`)
  }

  async function attempt(deed: Deed, trouble: Trouble | null): Promise<Attempt> {
    const told = await ask(child, { ask: 'perform', deed, trouble })
    if (told === null && trouble?.by === 'signal') return { came: 'to an end' }
    if (told?.told === 'failed') return { came: 'to nothing', ...told }
    if (told?.told !== 'seen')
      throw new Difference(told?.told === 'threw' ? told.message : `died at ${deed.do}`)
    secrets = told.secrets
    return { came: 'through', seen: told.seen, severed: told.severed }
  }

  await open(of.start, null)
  return {
    attempt,
    async perform(deed) {
      const attempted = await attempt(deed, null)
      if (attempted.came !== 'through') throw new Difference('the process died unasked')
      return attempted.seen
    },
    async restart(now, trouble) {
      // What is under way at a server ends by itself.
      await accessTo(of.place).settled()
      child = start()
      if (await open(now, trouble)) return
      await accessTo(of.place).settled()
      child = start()
      if (!(await open(now, null))) throw new Difference('the data do not open after a crash')
    },
    readNews: (after) => demand({ ask: 'news', ...after }, 'news'),
    firstFault: async () => (await demand({ ask: 'firstFault' }, 'firstFault')).fault,
    firstTaken: async () => (await demand({ ask: 'firstTaken' }, 'firstTaken')).fault,
    record: async () => (await demand({ ask: 'record' }, 'record')).record,
    async close() {
      if (child.connected) {
        await ask(child, { ask: 'close' })
        child.disconnect()
      }
    },
  }
}

const start = (): ChildProcess =>
  fork(new URL('./process.ts', import.meta.url), {
    serialization: 'advanced',
    execArgv: [],
    env: { ...process.env, ...COMPILED },
  })

/** What the process tells; null when it died. */
function ask(child: ChildProcess, question: Ask): Promise<Told | null> {
  return new Promise((resolve) => {
    const told = (message: unknown) => end(message as Told)
    const died = () => end(null)
    const end = (answer: Told | null) => {
      child.off('message', told)
      child.off('exit', died)
      resolve(answer)
    }
    child.on('message', told)
    child.on('exit', died)
    child.send(question)
  })
}
