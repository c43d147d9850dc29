// A process that has the program in it, and that can be told to die at one of its calls to the database, or to lose a
// connection there.

import { flushCompileCache } from 'node:module'
import type { Death, Deed } from '../action.ts'
import { firedAfter, lateAfter } from '../system/deeds.ts'
import { hostHere } from '../system/host.ts'
import type { FiredSeen, LateSeen, Lines, Seen } from '../system/observed.ts'
import { accessTo, type Place } from '../system/system.ts'
import { type Fate, type Messages, type Point, watchCalls, watchMessages } from './calls.ts'

export type Secrets = [label: string, of: { keyId: string; secret: string }][]
/** Who ends what: a signal the process, or one of the others a connection. */
export type Trouble = { death: Death; by: 'signal' | Fate }
/** Whether a connection was lost on the way, and with it the answer to a commit. */
export type Severed = { inCommit: boolean }
export type Ask =
  | { ask: 'open'; place: Place; seed: number; start: number; secrets: Secrets; trouble: Trouble | null }
  | { ask: 'perform'; deed: Deed; trouble: Trouble | null }
  | { ask: 'firstFault' | 'firstTaken' | 'record' | 'close' }
  | { ask: 'news'; execution: string | null; late: number }
export type Told =
  | { told: 'opened' | 'closed' }
  | { told: 'seen'; seen: Seen; severed: Severed | null; secrets: Secrets }
  /** A connection was lost, and with it what was to be done. */
  | { told: 'failed'; severed: Severed; message: string }
  | { told: 'firstFault' | 'firstTaken'; fault: string | null }
  | { told: 'record'; record: Lines }
  | { told: 'news'; fired: FiredSeen[]; late: LateSeen[] }
  | { told: 'threw'; message: string }

let trouble: Trouble | null = null
let severed: Severed | null = null
let host: Awaited<ReturnType<typeof hostHere>> | undefined
let messages: Messages | undefined

/** Whether this is the place. A signal cannot be caught, and nothing after it runs. */
function isHere(isCommit: boolean): boolean {
  if (!trouble || (trouble.death.of === 'commits' && !isCommit)) return false
  trouble.death.at -= 1
  if (trouble.death.at > 0) return false
  if (trouble.by === 'signal') process.kill(process.pid, 'SIGKILL')
  return true
}

function fateAt(point: Point, isCommit: boolean): Fate | null {
  const by = trouble?.by
  if (!isHere(isCommit) || by === undefined || by === 'signal') return null
  severed = { inCommit: isCommit && point !== 'unsent' }
  trouble = null
  return by
}

async function watch(place: Place): Promise<void> {
  if (place.store === 'postgres') messages = await watchMessages(place.server, fateAt)
  else watchCalls(isHere)
}

// Written now, because nothing runs after a kill.
flushCompileCache()
process.on('message', async (ask: Ask) => {
  try {
    process.send?.(await answer(ask))
  } catch (error) {
    process.send?.({ told: 'threw', message: (error as Error).stack ?? String(error) } satisfies Told)
  }
})

async function answer(ask: Ask): Promise<Told> {
  if (ask.ask === 'open') {
    const { place, seed, start, secrets } = ask
    await watch(place)
    trouble = ask.trouble
    host = await hostHere({ access: accessTo(place), seed, start, secrets: new Map(secrets) })
    trouble = null
    return { told: 'opened' }
  }
  if (!host) throw new Error('nothing is open')
  switch (ask.ask) {
    case 'perform':
      return perform(ask, host)
    case 'firstFault':
      return { told: 'firstFault', fault: await host.firstFault() }
    case 'firstTaken':
      return { told: 'firstTaken', fault: await host.firstTaken() }
    case 'record':
      return { told: 'record', record: await host.record() }
    case 'news': {
      const store = host.system.store()
      return {
        told: 'news',
        fired: await firedAfter(store, ask.execution),
        late: await lateAfter(store, ask.late),
      }
    }
    case 'close':
      await host.close()
      return { told: 'closed' }
  }
}

async function perform(
  { deed, ...ask }: Extract<Ask, { ask: 'perform' }>,
  { perform, system }: NonNullable<typeof host>,
): Promise<Told> {
  trouble = ask.trouble
  severed = null
  try {
    const seen = await perform(deed)
    return { told: 'seen', seen, severed, secrets: [...system.secrets] }
  } catch (error) {
    const lost = severed as Severed | null
    if (!lost) throw error
    return { told: 'failed', severed: lost, message: (error as Error).stack ?? String(error) }
  } finally {
    trouble = null
    if (severed) await messages?.settled()
  }
}
