// A life in which the process is killed in the middle of an action. Afterwards the data are as before the action, as
// after it, or in between two of its transactions; every answered write is stored. A lost connection is different: the
// request is answered as usual.

import { type ChildProcess, fork } from 'node:child_process'
import { COMPILED } from '../../support/process.ts'
import { type Action, type Death, type Deed, deedOf, type Interruptible } from '../action.ts'
import type { Chance } from '../chance.ts'
import {
  actOn,
  differenceOf,
  judge,
  type LifeOptions,
  type Lived,
  learnIds,
  learnNumbers,
  live,
  look,
  type OpenStage,
  replay,
  resolvable,
} from '../life.ts'
import { recordOf } from '../model/calls.ts'
import { statesOnTheWay } from '../model/pass.ts'
import type { State } from '../model/state.ts'
import { Difference, type FiredSeen, type LateSeen, type Seen } from '../observed.ts'
import { accessTo, makePlace, type Place } from '../system/place.ts'
import type { Host } from '../system/system.ts'
import type { Ask, Secrets, Severed, Told, Trouble } from './process.ts'

/** The probability that an action is the last of its process: higher for a pass, which is several transactions. */
const KILLED = { pass: 0.25, other: 0.12 }
/** The probability that another action loses a connection to its server. */
const SEVERED = 0.15
/** Of those killed at any call, one in so many is killed once more, while it opens the file again. */
const KILLS_PER_OPENING = 5
/** The share killed around a commit, which is when something can be lost; the others at any call. */
const KILLED_AT_COMMIT = 0.5
/**
 * The needs of most actions, each call or commit counted before and after. Some passes make more. On a file a pass
 * usually makes two to six commits, everything else one at most; a server gets fewer calls, and every snapshot ends
 * with a commit too.
 */
const MOST = {
  sqlite: { commits: { pass: 8, other: 2 }, calls: { pass: 300, other: 80 }, firstCalls: 12 },
  postgres: { commits: { pass: 24, other: 6 }, calls: { pass: 150, other: 45 }, firstCalls: 12 },
} as const
/** Each kill costs the start of a process. */
const STEPS_MAX = 40

export async function liveWithCrashes(
  seed: number,
  { steps, isOver, server = null }: Pick<LifeOptions, 'steps' | 'isOver'> & { server?: string | null },
): Promise<Lived & { crashes: Crashes }> {
  const crashes = noCrashes()
  const open = mortal(server, crashes)
  const lived = await live(seed, { steps: steps ?? STEPS_MAX, open, ...(isOver && { isOver }) })
  return { ...lived, crashes }
}

export const replayWithCrashes = (
  seed: number,
  trace: readonly Action[],
  server: string | null,
): Promise<Error | null> => replay(seed, trace, mortal(server, noCrashes()))

const mortal =
  (server: string | null, crashes: Crashes): OpenStage =>
  async (of) => {
    const { place, remove } = await makePlace(server)
    const host = await openMortalHost({ place, ...of })
    return {
      host,
      alter: (action, chance) => interrupted(action, { chance, store: place.store }),
      act: (state, action) => {
        const on = { host, isServer: server !== null }
        if (action.do === 'killed') return resolvable(() => actAndDie(on, state, action, crashes))
        if (action.do === 'severed') return resolvable(() => actSevered(on, state, action, crashes))
        return actOn(host, state, action)
      },
      async close() {
        await host.close()
        await remove()
      },
    }
  }

type On = { host: MortalHost; isServer: boolean }

type Drawing = { chance: Chance; store: keyof typeof MOST }

/** Interrupts some of the drawn actions. Nothing runs concurrently: the expected state would be unknown. */
function interrupted(action: Action, drawing: Drawing): Action {
  const { chance, store } = drawing
  const isOne =
    action.do === 'call' || action.do === 'lever' || action.do === 'pass' || action.do === 'export'
  // A reset is several transactions, and the next one completes it: its remains have a test of their own. A command
  // opens the data for itself, and has tests of its own for its remains.
  if (!isOne || (action.do === 'lever' && ['reset', 'record'].includes(action.lever))) return action
  const kind = action.do === 'pass' ? 'pass' : 'other'
  const alone: Interruptible =
    action.do === 'pass' ? { ...action, isOverlapped: false, meanwhile: [], hanging: null } : action
  if (chance.happens(KILLED[kind])) return { do: 'killed', death: deathIn(kind, drawing), action: alone }
  if (store === 'sqlite' || !chance.happens(SEVERED)) return action
  const by = chance.pick(['server', 'network'] as const)
  return { do: 'severed', by, death: deathIn(kind, drawing), action: alone }
}

function deathIn(kind: 'pass' | 'other', { chance: { happens, between }, store }: Drawing): Death {
  const { commits, calls, firstCalls } = MOST[store]
  if (happens(KILLED_AT_COMMIT)) return { at: between(1, commits[kind]), of: 'commits' }
  return { at: between(1, happens(0.5) ? calls[kind] : firstCalls), of: 'calls' }
}

/** Counts a crash, if there is one: an action that ends sooner is judged like any other. */
async function actAndDie(
  on: On,
  state: State,
  action: Extract<Action, { do: 'killed' }>,
  crashes: Crashes,
): Promise<void> {
  const { host } = on
  const trouble = { death: action.death, by: 'signal' } as const
  const attempt = await host.attempt(deedOf(state, action), trouble)
  if (attempt.came === 'through') {
    await judge(state, action, { seen: attempt.seen, readRecord: host.record })
    return
  }
  const isKilledAgain = trouble.death.of === 'calls' && trouble.death.at % KILLS_PER_OPENING === 0
  await host.restart(state.clock, isKilledAgain ? trouble : null)
  const before = state.executions.length
  const isAfterCommit = await goOnFromWhatIsThere(on, state, action.action)
  crashes.all += 1
  if (isAfterCommit) crashes.afterCommit += 1
  if (state.executions.length > before) crashes.afterFiring += 1
}

/** The caller gets the usual answer. Only a pass may end with the session that holds its lock. */
async function actSevered(
  on: On,
  state: State,
  action: Extract<Action, { do: 'severed' }>,
  crashes: Crashes,
): Promise<void> {
  const { host } = on
  const { death, by } = action
  const attempt = await host.attempt(deedOf(state, action), { death, by })
  if (attempt.came === 'to an end') throw new Difference('the process died of a connection that ended')
  const { severed } = attempt
  if (severed) crashes.severed += 1
  if (severed?.inCommit) crashes.inCommit += 1
  if (attempt.came === 'through') {
    await judge(state, action, { seen: attempt.seen, readRecord: host.record })
    return
  }
  if (action.action.do !== 'pass') throw new Difference(`a connection that ended fails: ${attempt.message}`)
  crashes.failed += 1
  await goOnFromWhatIsThere(on, state, action.action)
}

/** Adopts the intermediate state that the data are in; answers whether it differs from the state before. */
async function goOnFromWhatIsThere(on: On, state: State, action: Interruptible): Promise<boolean> {
  const { host } = on
  const { left, isAfterCommit } = await whatItCameTo(on, state, action)
  Object.assign(state, left)
  await look(host, state, true)
  // It is not recorded whether a month was closed: a second export closes it.
  if (action.do === 'export') await actOn(host, state, action)
  return isAfterCommit
}

/** Finds the intermediate state that the data are in. */
async function whatItCameTo(
  { host, isServer }: On,
  state: State,
  action: Interruptible,
): Promise<{ left: State; isAfterCommit: boolean }> {
  const program = await host.record()
  const before = state.executions.length
  const { fired, late } = await host.readNews({
    execution: state.executions.at(-1)?.id ?? null,
    late: state.lateNumbers,
  })
  let nearest: string | null = null
  for (const [place, candidate] of statesOnTheWay(state, action, isServer).entries()) {
    learnIds(candidate, { before, fired })
    if (late.length > 0) learnNumbers(candidate, { before: state.lateNumbers, late })
    const difference = differenceOf(recordOf(candidate), program)
    if (difference === null) return { left: candidate, isAfterCommit: place > 0 }
    nearest = difference
  }
  throw new Difference(`after a crash in ${action.do} nothing fits: ${nearest}`)
}

// The counts of a life's crashes.

export const noCrashes = () => ({
  all: 0,
  /** Crashes that left a part of the action. */
  afterCommit: 0,
  /** Crashes that left a tranche of an unfinished pass. */
  afterFiring: 0,
  /** Connections that ended while the process continued. */
  severed: 0,
  /** Connections that ended after a commit was sent, without its answer being read. */
  inCommit: 0,
  /** Connections whose end a pass did not survive. */
  failed: 0,
})
export type Crashes = ReturnType<typeof noCrashes>

/** Adds `more` to `crashes`. */
export function addCrashes(crashes: Crashes, more: Crashes): void {
  for (const name of Object.keys(crashes) as (keyof Crashes)[]) crashes[name] += more[name]
}

// The program in a process that can be killed, and restarted on the same file.

type MortalHost = Host & {
  /** Performs a deed in trouble. A killed process has to be restarted. */
  attempt: (deed: Deed, trouble: Trouble) => Promise<Attempt>
  /** The executions fired and the late fills stored after these. */
  readNews: (after: {
    execution: string | null
    late: number
  }) => Promise<{ fired: FiredSeen[]; late: LateSeen[] }>
  /** Restarts the process at this time. It may be killed while it opens the data, and is started once more. */
  restart: (now: number, trouble: Trouble | null) => Promise<void>
}

type Attempt =
  | { came: 'through'; seen: Seen; severed: Severed | null }
  /** A connection was lost, and the process continues. */
  | { came: 'to nothing'; severed: Severed; message: string }
  | { came: 'to an end' }

async function openMortalHost(of: { place: Place; seed: number; start: number }): Promise<MortalHost> {
  let secrets: Secrets = []
  let child = start()
  let lives = 0

  async function open(now: number, trouble: Trouble | null): Promise<boolean> {
    lives += 1
    const { place, seed } = of
    // The random sequence continues elsewhere: no value is drawn twice.
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
      // Work in progress at a server ends by itself.
      await accessTo(of.place).settled()
      child = start()
      if (await open(now, trouble)) return
      await accessTo(of.place).settled()
      child = start()
      if (!(await open(now, null))) throw new Difference('the data do not open after a crash')
    },
    readNews: (after) => demand({ ask: 'news', ...after }, 'news'),
    firstFault: async () => (await demand({ ask: 'firstFault' }, 'firstFault')).fault,
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

/** The process's reply; null when it died. */
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
