// A life in which the process is killed in the middle of what it does. Afterwards the file is what it was before that, or
// what it was to be, or in between two transactions of it; whatever was answered is there.

import type { Action, Death } from '../action.ts'
import type { Chance } from '../chance.ts'
import { Difference } from '../difference.ts'
import { differenceOf, judge, learnIds } from '../judge.ts'
import { actOn, type Lived, live, look, type OpenStage, replay } from '../life.ts'
import { statesOnTheWay } from '../model/on-the-way.ts'
import { recordOf } from '../model/record.ts'
import type { State } from '../model/state.ts'
import { deedOf, Unresolvable } from '../request.ts'
import { type Crashes, noCrashes } from './crashes.ts'
import { type MortalHost, openMortalHost } from './mortal-host.ts'

/** How likely an action is to be the last of its process: a pass more than others, because it is several transactions. */
const KILLED = { pass: 0.25, other: 0.12 }
/** Of those killed at any call, one in so many is killed once more, while it opens the file again. */
const KILLS_PER_OPENING = 5
/** How many of them are killed around a commit, which is when something can be lost; the others at any call. */
const KILLED_AT_COMMIT = 0.5
/** Before and after each commit: a pass makes two to six of them as a rule, everything else one at most. */
const COMMITS_MAX = { pass: 8, other: 2 }
/** Calls to the database, counted before and after: what most actions need. Some passes make more. */
const CALLS_MAX = { pass: 300, other: 80 }
const FIRST_CALLS = 12
/** Each kill costs the start of a process. */
const STEPS_MAX = 40

export async function liveWithCrashes(
  seed: number,
  { steps }: { steps: number | null },
): Promise<Lived & { crashes: Crashes }> {
  const crashes = noCrashes()
  const lived = await live(seed, { steps: steps ?? STEPS_MAX, open: mortal(crashes) })
  return { ...lived, crashes }
}

export const replayWithCrashes = (seed: number, trace: readonly Action[]): Promise<Error | null> =>
  replay(seed, trace, mortal(noCrashes()))

const mortal =
  (crashes: Crashes): OpenStage =>
  async (place) => {
    const host = await openMortalHost(place)
    return {
      host,
      alter: maybeKilled,
      act: async (state, action) => {
        if (action.do !== 'killed') return actOn(host, state, action)
        try {
          await actAndDie(host, state, action, crashes)
        } catch (error) {
          if (!(error instanceof Unresolvable)) throw error
        }
      },
    }
  }

/** Some of what is drawn is to be interrupted. Nothing happens beside it: what is true then would be anybody's guess. */
function maybeKilled(action: Action, chance: Chance): Action {
  const isOne =
    action.do === 'call' || action.do === 'lever' || action.do === 'pass' || action.do === 'export'
  const kind = action.do === 'pass' ? 'pass' : 'other'
  if (!isOne || !chance.happens(KILLED[kind])) return action
  const death = deathIn(kind, chance)
  if (action.do !== 'pass') return { do: 'killed', death, action }
  return { do: 'killed', death, action: { ...action, isOverlapped: false, meanwhile: [], hanging: null } }
}

function deathIn(kind: 'pass' | 'other', { happens, between }: Chance): Death {
  if (happens(KILLED_AT_COMMIT)) return { at: between(1, COMMITS_MAX[kind]), of: 'commits' }
  return { at: between(1, happens(0.5) ? CALLS_MAX[kind] : FIRST_CALLS), of: 'calls' }
}

/** Counts a crash, if it comes to one: an action that is over sooner is judged like any other. */
async function actAndDie(
  host: MortalHost,
  state: State,
  action: Extract<Action, { do: 'killed' }>,
  crashes: Crashes,
): Promise<void> {
  const { death } = action
  const seen = await host.performOrDie(deedOf(state, action), death)
  if (seen) return judge(state, action, seen)
  const isKilledAgain = death.of === 'calls' && death.at % KILLS_PER_OPENING === 0
  await host.restart(state.clock, isKilledAgain ? death : null)
  const { left, isAfterCommit } = await whatItCameTo(host, state, action.action)
  crashes.all += 1
  if (isAfterCommit) crashes.afterCommit += 1
  if (left.executions.length > state.executions.length) crashes.afterFiring += 1
  Object.assign(state, left)
  await look(host, state, true)
  // Whether a month was closed is not on record: asked again, it is.
  if (action.action.do === 'export') await actOn(host, state, action.action)
}

/** Which of the states on the way the file is in. */
async function whatItCameTo(
  host: MortalHost,
  state: State,
  action: Extract<Action, { do: 'killed' }>['action'],
): Promise<{ left: State; isAfterCommit: boolean }> {
  const program = await host.record()
  const before = state.executions.length
  const fired = await host.firedAfter(state.executions.at(-1)?.id ?? null)
  let nearest: string | null = null
  for (const [place, candidate] of statesOnTheWay(state, action).entries()) {
    learnIds(candidate, { before, seen: { fired } })
    const difference = differenceOf(recordOf(candidate), program)
    if (difference === null) return { left: candidate, isAfterCommit: place > 0 }
    nearest = difference
  }
  throw new Difference(`after a crash in ${action.do} nothing fits: ${nearest}`)
}
