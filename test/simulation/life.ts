// One seed lived through: what the player draws, done to the program and to the model, held against each other.

import { type Action, type Call, deedOf, Unresolvable } from './action.ts'
import { type Chance, chanceOf } from './chance.ts'
import { Difference } from './difference.ts'
import { differenceOf, judge } from './judge.ts'
import { recordOf } from './model/calls.ts'
import { assertSound } from './model/ledger.ts'
import { DAY, emptyState, idempotencyKey, type Late, type State } from './model/state.ts'
import { createPlayer, profileOf } from './player/player.ts'
import { type Host, hostHere } from './system/host.ts'
import type { LateSeen, News, PassSeen } from './system/observed.ts'
import { accessTo, makePlace } from './system/system.ts'

export type Lived = {
  steps: number
  /** Of the API, held against the model. */
  answers: number
  partnerDays: number
  executions: number
  trades: number
}

/** What went wrong, and all that had happened by then. */
export class Failure extends Error {
  readonly trace: readonly Action[]

  constructor(trace: readonly Action[], cause: Error) {
    super(cause.message, { cause })
    this.trace = trace
  }
}

/** How a seed is lived: where the program runs, and how an action is done to it and to the model. */
type Stage = {
  host: Host
  act: (state: State, action: Action) => Promise<void>
  /** Turns what is drawn into what is done. */
  alter: (action: Action, chance: Chance) => Action
  /** The last look at all of it. */
  end?: (state: State) => Promise<void>
  /** Closes the host, and takes away where it was. */
  close: () => Promise<void>
}

/** Opens the program on a place of its own. */
export type OpenStage = (of: { seed: number; start: number }) => Promise<Stage>

/** Between two looks at all that is on record. */
const STEPS_BETWEEN_RECORDS = 5

export type LifeOptions = {
  /** Null for as many as its world has. */
  steps: number | null
  /** Ends it earlier, between two steps. */
  isOver?: () => boolean
  open?: OpenStage
}

/** Lives a seed. Throws a Failure. */
export async function live(
  seed: number,
  { steps: asked, isOver = () => false, open = inThisProcess(null) }: LifeOptions,
): Promise<Lived> {
  const chance = chanceOf(seed)
  const profile = profileOf(chance)
  const state = emptyState(profile.start)
  const player = createPlayer(state, chance, profile)
  const trace: Action[] = []
  const most = asked ?? profile.steps
  return staged({ seed, start: profile.start }, open, async ({ host, act, alter, end }) => {
    let answers = 0
    let steps = 0
    const follow = async (actions: Generator<Action, void>) => {
      for (const drawn of actions) {
        const action = alter(drawn, chance)
        trace.push(action)
        await act(state, action)
        answers += answersTo(action)
      }
    }
    try {
      await follow(player.opening())
      for (; steps < most && !isOver(); steps++) {
        await follow(player.step())
        await look(host, state, (steps + 1) % STEPS_BETWEEN_RECORDS === 0)
      }
      await look(host, state, true)
      await probe(host)
      await end?.(state)
    } catch (error) {
      throw new Failure(trace, error as Error)
    }
    const days = Math.max(0, state.clock - profile.start) / DAY
    const partnerDays = Math.round(days * profile.partners)
    const trades = state.executions.filter(({ trade }) => trade).length
    return { steps, answers, partnerDays, executions: state.executions.length, trades }
  })
}

/** How many answers of the API are compared, at least: what hangs may be left out, and what is killed too. */
function answersTo(action: Action): number {
  switch (action.do) {
    case 'call':
    case 'locked':
      return 1
    case 'together':
    case 'race':
      return action.calls.length
    case 'pass':
      return action.meanwhile.length
    default:
      return 0
  }
}

/** Plays a trace again, leaving out what is about things that are not there. Answers what went wrong, or null. */
export async function replay(
  seed: number,
  trace: readonly Action[],
  open: OpenStage = inThisProcess(null),
): Promise<Error | null> {
  const { start } = profileOf(chanceOf(seed))
  const state = emptyState(start)
  return staged({ seed, start }, open, async ({ host, act, end }) => {
    try {
      for (const action of trace) {
        await act(state, action)
        if (action.do === 'clock') await look(host, state, true)
      }
      await look(host, state, true)
      await probe(host)
      await end?.(state)
      return null
    } catch (error) {
      return error as Error
    }
  })
}

/** `server` is the address of a server, for a life on a database there; null for one on a file. */
export const inThisProcess =
  (server: string | null): OpenStage =>
  async (options) => {
    const { place, remove } = await makePlace(server)
    const host = await hostHere({ access: accessTo(place), ...options })
    return {
      host,
      act: (state, action) => actOn(host, state, action),
      alter: (action) => action,
      async close() {
        await host.close()
        await remove()
      },
    }
  }

export async function actOn(host: Host, state: State, action: Action): Promise<void> {
  await resolvable(async () => {
    const seen = await host.perform(deedOf(state, action))
    await judge(state, action, { seen, readRecord: host.record })
  })
}

/** Does nothing about what is not there, in a trace that was cut down. */
export async function resolvable(work: () => Promise<void>): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (!(error instanceof Unresolvable)) throw error
  }
}

/** The rules that hold at every moment, and now and then every row. */
export async function look(host: Host, state: State, isWhole: boolean): Promise<void> {
  const fault = await host.firstFault()
  if (fault) throw new Difference(`check finds ${fault}`)
  assertSound(state)
  if (!isWhole) return
  const difference = differenceOf(recordOf(state), await host.record())
  if (difference) throw new Difference(difference)
}

/**
 * The data themselves refuse what the program must never do: a second line of defence, tried at the end of each life.
 */
async function probe(host: Host): Promise<void> {
  const taken = await host.firstTaken()
  if (taken) throw new Difference(`the data do not refuse ${taken}`)
}

async function staged<T>(
  of: { seed: number; start: number },
  open: OpenStage,
  work: (stage: Stage) => Promise<T>,
): Promise<T> {
  const stage = await open(of)
  try {
    return await work(stage)
  } finally {
    await stage.close()
  }
}

// What only the program knows until it has said so, and the model has to take from it: ids, numbers, and the order of
// what was done at the same moment.

/** Only the program knows the ids of what it fired: from now on the model does too. */
export function learnIds(
  state: State,
  { before, fired }: { before: number; fired: PassSeen['fired'] },
): void {
  const ids = new Map(fired.map(({ tenant, key, id }) => [`${tenant} ${key}`, id]))
  const known = new Set(state.executions.slice(0, before).map(({ id }) => id))
  let last = state.executions[before - 1]?.id ?? ''
  for (const execution of state.executions.slice(before)) {
    const id = ids.get(`${execution.tenant.name} ${idempotencyKey(execution)}`)
    if (id === undefined || known.has(id)) continue
    if (id <= last) throw new Difference(`ids do not increase in the order of creation: ${id} after ${last}`)
    last = id
    execution.id = id
  }
}

/** The same of reports that were kept. Their numbers increase; what was undone may leave a gap. */
export function learnNumbers(
  state: State,
  { before, late }: { before: number; late: readonly LateSeen[] },
): void {
  const kept = state.executions.flatMap((execution) =>
    execution.late.filter(({ number }) => number > before).map((one) => ({ execution, late: one })),
  )
  const inOrder = kept.sort((a, b) => a.late.number - b.late.number)
  for (const [at, { execution, late: one }] of inOrder.entries()) {
    const seen = late[at]
    if (seen?.of !== execution.id)
      throw new Difference(`a report of ${execution.id} is kept, and the next number is of ${seen?.of}`)
    setNumber(state, one, seen.number)
  }
}

function setNumber(state: State, late: Late, number: number): void {
  late.number = number
  state.lateNumbers = Math.max(state.lateNumbers, number)
}

/** The order in which calls of different tenants were done, as far as it matters: whatever was numbered tells. */
export function orderOf(state: State, calls: readonly Call[], { planned, late }: News): number[] {
  const tenants = calls.map(({ key }) => state.keys.get(key)?.tenant.name ?? '')
  const planning = planned.map(({ tenant }) => tenant)
  const reporting = late.map(({ of }) => state.executions.find(({ id }) => id === of)?.tenant.name ?? '')
  const order = [...calls.keys()]
  for (const [route, numbered] of [
    ['plan', planning],
    ['confirm', reporting],
  ] as const) {
    const rank = (at: number) => numbered.lastIndexOf(tenants[at] ?? '')
    const places = order.flatMap((at, place) => (calls[at]?.route === route && rank(at) >= 0 ? [place] : []))
    const inOrder = places.map((place) => order[place] ?? 0).sort((a, b) => rank(a) - rank(b))
    for (const [i, place] of places.entries()) order[place] = inOrder[i] ?? 0
  }
  return order
}

/** Whether two calls of one tenant have made plans, the second one first. */
export function isPlannedInReverse([a, b]: readonly [Call, Call], { planned }: News): boolean {
  const rank = (call: Call) =>
    call.route === 'plan' ? planned.findLastIndex(({ plan }) => plan === call.body.partner_plan_id) : -1
  return rank(b) >= 0 && rank(a) > rank(b)
}
