// A life in which the process is killed in the middle of what it does. Afterwards the file is what it was before that, or
// what it was to be, or in between two transactions of it; whatever was answered is there.

import type { Action } from '../action.ts'
import type { Chance } from '../chance.ts'
import { Difference } from '../difference.ts'
import { differenceOf, judge, learnIds } from '../judge.ts'
import { actOn, type Lived, live, look, type OpenStage, replay } from '../life.ts'
import { statesOnTheWay } from '../model/on-the-way.ts'
import { recordOf } from '../model/record.ts'
import type { State } from '../model/state.ts'
import { deedOf, Unresolvable } from '../request.ts'
import { type MortalHost, openMortalHost } from './mortal-host.ts'

/** How likely an action is to be the last of its process. */
const KILLED = 0.12
/** One in so many is killed once more, while it opens the file again. */
const KILLS_PER_OPENING = 10
/** About as many looks at the database as the longest action takes. */
const LOOKS_MAX = 80
/** Each kill costs the start of a process. */
const STEPS_MAX = 40

export async function liveWithCrashes(
  seed: number,
  { steps }: { steps: number | null },
): Promise<Lived & { crashes: number }> {
  const count = { crashes: 0 }
  const lived = await live(seed, { steps: steps ?? STEPS_MAX, open: mortal(count) })
  return { ...lived, ...count }
}

export const replayWithCrashes = (seed: number, trace: readonly Action[]): Promise<Error | null> =>
  replay(seed, trace, mortal({ crashes: 0 }))

const mortal =
  (count: { crashes: number }): OpenStage =>
  async (place) => {
    const host = await openMortalHost(place)
    return {
      host,
      alter: maybeKilled,
      act: async (state, action) => {
        if (action.do !== 'killed') return actOn(host, state, action)
        try {
          if (await actAndDie(host, state, action)) count.crashes += 1
        } catch (error) {
          if (!(error instanceof Unresolvable)) throw error
        }
      },
    }
  }

/** Some of what is drawn is to be interrupted. Nothing happens beside it: what is true then would be anybody's guess. */
function maybeKilled(action: Action, { happens, between }: Chance): Action {
  const isOne =
    action.do === 'call' || action.do === 'lever' || action.do === 'pass' || action.do === 'export'
  if (!isOne || !happens(KILLED)) return action
  const at = between(1, happens(0.5) ? LOOKS_MAX : 12)
  if (action.do !== 'pass') return { do: 'killed', at, action }
  return { do: 'killed', at, action: { ...action, isOverlapped: false, meanwhile: [], hanging: null } }
}

/** Answers whether the process died: an action that is over sooner is judged like any other. */
async function actAndDie(
  host: MortalHost,
  state: State,
  action: Extract<Action, { do: 'killed' }>,
): Promise<boolean> {
  const seen = await host.performOrDie(deedOf(state, action), action.at)
  if (seen) {
    judge(state, action, seen)
    return false
  }
  await host.restart(state.clock, action.at % KILLS_PER_OPENING === 0 ? action.at : null)
  Object.assign(state, await whatItCameTo(host, state, action.action))
  await look(host, state, true)
  // Whether a month was closed is not on record: asked again, it is.
  if (action.action.do === 'export') await actOn(host, state, action.action)
  return true
}

/** Which of the states on the way the file is in. */
async function whatItCameTo(
  host: MortalHost,
  state: State,
  action: Extract<Action, { do: 'killed' }>['action'],
): Promise<State> {
  const program = await host.record()
  const before = state.executions.length
  const fired = await host.firedAfter(state.executions.at(-1)?.id ?? null)
  let nearest: string | null = null
  for (const candidate of statesOnTheWay(state, action)) {
    learnIds(candidate, { before, seen: { fired } })
    const difference = differenceOf(recordOf(candidate), program)
    if (difference === null) return candidate
    nearest = difference
  }
  throw new Difference(`after a crash in ${action.do} nothing fits: ${nearest}`)
}
