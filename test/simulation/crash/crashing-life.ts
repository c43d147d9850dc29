// A life in which the process is killed in the middle of what it does. Afterwards the data are what they were before
// that, or what they were to be, or in between two transactions of it; whatever was answered is there. A connection
// that ends is no such thing: what is asked is answered as ever.

import type { Action, Death, Interruptible } from '../action.ts'
import type { Chance } from '../chance.ts'
import { Difference } from '../difference.ts'
import { differenceOf, judge } from '../judge.ts'
import { learnIds, learnNumbers } from '../learn.ts'
import {
  actOn,
  type LifeOptions,
  type Lived,
  live,
  look,
  type OpenStage,
  replay,
  resolvable,
} from '../life.ts'
import { statesOnTheWay } from '../model/on-the-way.ts'
import { wakeUpsOf } from '../model/pass.ts'
import { recordOf } from '../model/record.ts'
import type { State } from '../model/state.ts'
import { deedOf } from '../request.ts'
import { makePlace } from '../system/place.ts'
import { type Crashes, noCrashes } from './crashes.ts'
import { type MortalHost, openMortalHost } from './mortal-host.ts'

/**
 * How likely an action is to be the last of its process: a pass more than others, because it is several transactions.
 */
const KILLED = { pass: 0.25, other: 0.12 }
/** How likely another one is to lose a connection to its server. */
const SEVERED = 0.15
/** Of those killed at any call, one in so many is killed once more, while it opens the file again. */
const KILLS_PER_OPENING = 5
/** How many of them are killed around a commit, which is when something can be lost; the others at any call. */
const KILLED_AT_COMMIT = 0.5
/**
 * What most actions need, each counted before and after. Some passes make more. On a file a pass makes two to six
 * commits as a rule, everything else one at most; a server is asked for less, and every look at one moment ends with a
 * commit too.
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

/**
 * Some of what is drawn is to be interrupted. Nothing happens beside it: what is true then would be anybody's guess.
 */
function interrupted(action: Action, drawing: Drawing): Action {
  const { chance, store } = drawing
  const isOne =
    action.do === 'call' || action.do === 'lever' || action.do === 'pass' || action.do === 'export'
  // A reset is several transactions, and is done to its end by the next one: what it leaves is a test of its own.
  if (!isOne || (action.do === 'lever' && action.lever === 'reset')) return action
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

/** Counts a crash, if it comes to one: an action that is over sooner is judged like any other. */
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

/** The caller is answered as if nothing had happened. Only a pass may end with the session that holds its lock. */
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

/** Takes over which of the states on the way the data are in; answers whether it is another than before. */
async function goOnFromWhatIsThere(on: On, state: State, action: Interruptible): Promise<boolean> {
  const { host, isServer } = on
  const before = state.executions.length
  const { left, isAfterCommit } = await whatItCameTo(on, state, action)
  Object.assign(state, left)
  // Whether they were claimed before that is not on record: the next pass shows it.
  if (isServer && action.do === 'pass') state.left.push(wakeUpsOf(state.executions.slice(before)))
  await look(host, state, true)
  // Whether a month was closed is not on record: asked again, it is.
  if (action.do === 'export') await actOn(host, state, action)
  return isAfterCommit
}

/** Which of the states on the way the data are in. */
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
