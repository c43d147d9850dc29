// The program in a process that can be killed, and started again on the same file.

import { type ChildProcess, fork } from 'node:child_process'
import type { Death } from '../action.ts'
import { Difference } from '../difference.ts'
import type { Deed } from '../request.ts'
import type { Host } from '../system/host.ts'
import type { FiredSeen, Seen } from '../system/observed.ts'
import type { Ask, Secrets, Told } from './process.ts'

export type MortalHost = Host & {
  /** Performs a deed; null when the process was killed on the way: then it has to be started again. */
  performOrDie: (deed: Deed, death: Death) => Promise<Seen | null>
  firedAfter: (executionId: string | null) => Promise<FiredSeen[]>
  /** Starts the process again at this time. It may be killed while it opens the file, and is started once more. */
  restart: (now: number, death: Death | null) => Promise<void>
}

export async function openMortalHost(of: { file: string; seed: number; start: number }): Promise<MortalHost> {
  let secrets: Secrets = []
  let child = start()
  let lives = 0

  async function open(now: number, death: Death | null): Promise<boolean> {
    lives += 1
    const { file, seed } = of
    // Chance goes on from elsewhere: what is drawn at random is never drawn twice.
    const told = await ask(child, { ask: 'open', file, seed: seed + lives, start: now, secrets, death })
    return told !== null
  }

  async function demand<K extends Told['told']>(question: Ask, kind: K) {
    const told = await ask(child, question)
    if (told?.told === kind) return told as Told & Record<'told', K>
    throw new Difference(told?.told === 'threw' ? told.message : `the process ended at ${question.ask}`)
  }

  async function perform(deed: Deed, death: Death | null): Promise<Seen | null> {
    const told = await ask(child, { ask: 'perform', deed, death })
    if (told === null && death !== null) return null
    if (told?.told !== 'seen')
      throw new Difference(told?.told === 'threw' ? told.message : `died at ${deed.do}`)
    secrets = told.secrets
    return told.seen
  }

  await open(of.start, null)
  return {
    performOrDie: perform,
    async perform(deed) {
      const seen = await perform(deed, null)
      if (!seen) throw new Difference('the process died unasked')
      return seen
    },
    async restart(now, death) {
      child = start()
      if (await open(now, death)) return
      child = start()
      if (!(await open(now, null))) throw new Difference('the file does not open after a crash')
    },
    firedAfter: async (after) => (await demand({ ask: 'fired', after }, 'fired')).fired,
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
  fork(new URL('./process.ts', import.meta.url), { serialization: 'advanced' })

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
