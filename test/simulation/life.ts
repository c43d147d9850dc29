// The life of one seed: the player draws actions, program and model perform them, and the results are compared.

import { isDeepStrictEqual } from 'node:util'
import { deserialize, serialize } from 'node:v8'
import { type Action, type Call, deedOf, type Pass, Unresolvable } from './action.ts'
import { type Chance, chanceOf } from './chance.ts'
import { ANY_TEXT, answer, type Expected, recordOf } from './model/calls.ts'
import { assertSound } from './model/ledger.ts'
import { audit, carryStops, eraseAgain, operate } from './model/levers.ts'
import { csv } from './model/months.ts'
import { observedBy, pass, sentTo, wake, wakeUpsOf } from './model/pass.ts'
import { credit } from './model/purchases.ts'
import { DAY, emptyState, idempotencyKey, type Late, type State } from './model/state.ts'
import {
  type Answered,
  Difference,
  type LateSeen,
  type Lines,
  type News,
  NO_NEWS,
  type PassSeen,
  type Seen,
} from './observed.ts'
import { createPlayer, profileOf } from './player/player.ts'
import { accessTo, makePlace } from './system/place.ts'
import { type Host, hostHere } from './system/system.ts'

export type Lived = {
  steps: number
  /** Answers of the API, compared with the model's. */
  answers: number
  partnerDays: number
  executions: number
  trades: number
}

/** A failure, and the trace of all actions before it. */
export class Failure extends Error {
  readonly trace: readonly Action[]

  constructor(trace: readonly Action[], cause: Error) {
    super(cause.message, { cause })
    this.trace = trace
  }
}

/** The setting of a life: where the program runs, and how an action is performed by it and by the model. */
type Stage = {
  host: Host
  act: (state: State, action: Action) => Promise<void>
  /** Turns a drawn action into the performed one. */
  alter: (action: Action, chance: Chance) => Action
  /** The last check of everything. */
  end?: (state: State) => Promise<void>
  /** Closes the host, and removes its place. */
  close: () => Promise<void>
}

/** Opens the program on a place of its own. */
export type OpenStage = (of: { seed: number; start: number }) => Promise<Stage>

/** The steps between two comparisons of the whole record. */
const STEPS_BETWEEN_RECORDS = 5

export type LifeOptions = {
  /** Null for the number of its world. */
  steps: number | null
  /** Ends the life earlier, between two steps. */
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

/** The least number of API answers that are compared: hanging and killed calls may be left out. */
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

/** Replays a trace without the actions about missing things. Answers the failure, or null. */
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

/** Ignores actions about missing things, in a trace that was cut down. */
export async function resolvable(work: () => Promise<void>): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (!(error instanceof Unresolvable)) throw error
  }
}

/** Checks the rules that hold at every moment, and now and then every row. */
export async function look(host: Host, state: State, isWhole: boolean): Promise<void> {
  const fault = await host.firstFault()
  if (fault) throw new Difference(`check finds ${fault}`)
  assertSound(state)
  if (!isWhole) return
  const difference = differenceOf(recordOf(state), await host.record())
  if (difference) throw new Difference(difference)
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

// Facts that only the program knows until it has reported them, and that the model takes from it: ids, numbers, and the
// order of simultaneous calls.

/** Teaches the model the ids of fired executions, which only the program knows. */
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

/** Teaches it the numbers of stored reports. They increase; a rollback may leave a gap. */
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

/** The order in which calls of different tenants were done, as far as it matters: the assigned numbers show it. */
function orderOf(state: State, calls: readonly Call[], { planned, late }: News): number[] {
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
function isPlannedInReverse([a, b]: readonly [Call, Call], { planned }: News): boolean {
  const rank = (call: Call) =>
    call.route === 'plan' ? planned.findLastIndex(({ plan }) => plan === call.body.partner_plan_id) : -1
  return rank(b) >= 0 && rank(a) > rank(b)
}

// Compares the program's behaviour with the model's: any difference is a failure of one of the two.

/** A difference with both sides of it. */
const differ = (what: string, expected: unknown, seen: unknown): Difference =>
  new Difference(`${what}\n  model:   ${show(expected)}\n  program: ${show(seen)}`)

const show = (value: unknown): string =>
  JSON.stringify(value, (_, part) => (typeof part === 'bigint' ? String(part) : part))

/**
 * Applies an action to the model, and throws a Difference where the program behaved otherwise. Answers the order in
 * which simultaneous calls were done. `readRecord` is called where their answers alone do not show it.
 */
export async function judge(
  state: State,
  action: Action,
  { seen, readRecord }: { seen: Seen; readRecord: () => Promise<Lines> },
): Promise<readonly number[] | null> {
  switch (action.do) {
    case 'together':
      return judgeTogether(state, action.calls, seen)
    case 'race':
      return judgeRace(state, action.calls, { seen, readRecord })
    case 'killed':
    case 'severed':
      return judge(state, action.action, { seen, readRecord })
    default:
      judgeOne(state, action, seen)
      return null
  }
}

type One = Exclude<Action, { do: 'together' | 'race' | 'killed' | 'severed' }>

function judgeOne(state: State, action: One, seen: Seen): void {
  switch (action.do) {
    case 'clock':
      state.clock += action.by
      break
    case 'backup':
      state.saved = serialize({ ...state, saved: null })
      break
    case 'restore':
      restore(state)
      break
    case 'resume':
      if (state.frozen) audit(state)
      state.frozen = false
      state.replaced = []
      break
    case 'freeze':
      if (!state.frozen) audit(state)
      state.frozen = true
      break
    case 'call': {
      const before = state.lateNumbers
      judgeCall(state, action, pagesOf(seen))
      learnNumbers(state, { before, late: newsOf(seen).late })
      break
    }
    case 'locked':
      judgeCall(state, action.call, pagesOf(seen))
      break
    case 'pass':
      if (seen.do !== 'pass') throw differ('a pass', 'pass', seen.do)
      judgePass(state, action, seen.pass)
      break
    case 'rehearse':
      judgeRehearsal(state, action.price, seen)
      break
    case 'lever': {
      const before = state.executions.length
      judgeRefusal(action.lever, operate(state, action), seen)
      if (seen.do === 'lever') learnIds(state, { before, fired: seen.fired })
      break
    }
    case 'credit': {
      const expected = credit(state, action.slug, action.month)
      if (seen.do !== 'credit') throw differ('a credit', expected, seen)
      const { refused } = seen.credited
      if (!isDeepStrictEqual(expected, seen.credited))
        throw differ(`a credit: ${expected.refused} and ${refused}`, expected, seen.credited)
      break
    }
    case 'export':
      judgeExport(`${action.report} of ${action.month}`, csv(state, action.month, action.report), seen)
  }
}

/** Restores the backup; the time, the purchases, the erasures and the stops are not undone. */
function restore(state: State): void {
  const { clock, saved, venues, restores, erasures, partners, tenants, keys } = state
  if (!saved) throw new Error('there is no backup')
  const replaced = [{ partners, tenants, keys }, ...state.replaced]
  const kept = { clock, saved, venues, erasures, restores: restores + 1, frozen: true, replaced }
  Object.assign(state, deserialize(saved), kept)
  // The command writes an audit entry of its own, before it repeats later changes.
  audit(state)
  eraseAgain(state)
  carryStops(state)
}

const newsOf = (seen: Seen) => ('news' in seen ? seen.news : NO_NEWS)

const answersOf = (seen: Seen): readonly Answered[] => (seen.do === 'together' ? seen.answers : [])

function judgeRefusal(lever: string, refusal: string | null, seen: Seen): void {
  const refused = seen.do === 'lever' ? seen.refused : seen.do
  if (refused !== refusal) throw differ(`lever ${lever}: ${refusal} and ${refused}`, refusal, seen)
}

function judgeExport(what: string, text: string, seen: Seen): void {
  if (seen.do !== 'export' || seen.text !== text) throw differ(`export ${what}`, text, seen)
}

const pagesOf = (seen: Seen): readonly Answered[] => (seen.do === 'call' ? seen.pages : [])

function judgeCall(state: State, call: Call, pages: readonly Answered[]): void {
  const expected = answer(state, call)
  if (expected.length !== pages.length) throw differ(`pages of ${call.route}`, expected, pages)
  expected.forEach((one, i) => {
    const page = pages[i]
    if (!page || !matches(one, page))
      throw differ(`answer to ${call.route}: ${one.status} and ${page?.status}`, one, page)
  })
}

/** Judges calls of different tenants. */
function judgeTogether(state: State, calls: readonly Call[], seen: Seen): number[] {
  const answers = answersOf(seen)
  const before = state.lateNumbers
  const order = orderOf(state, calls, newsOf(seen))
  for (const at of order) {
    const call = calls[at]
    if (call) judgeCall(state, call, answers.slice(at, at + 1))
  }
  learnNumbers(state, { before, late: newsOf(seen).late })
  return order
}

/** Two simultaneous calls are answered as if one came after the other, in either order. */
async function judgeRace(
  state: State,
  [a, b]: [Call, Call],
  { seen, readRecord }: { seen: Seen; readRecord: () => Promise<Lines> },
): Promise<number[]> {
  const [first, second] = answersOf(seen)
  if (!first || !second) throw differ(`two calls at once`, [a, b], seen)
  const [inTurn, reversed] = [structuredClone(state), structuredClone(state)]
  const ofTurn = [answer(inTurn, a)[0], answer(inTurn, b)[0]] as const
  const ofReversed = [answer(reversed, b)[0], answer(reversed, a)[0]] as const
  const isTurn = ofTurn[0] && ofTurn[1] && matches(ofTurn[0], first) && matches(ofTurn[1], second)
  const isReversed =
    ofReversed[0] && ofReversed[1] && matches(ofReversed[0], second) && matches(ofReversed[1], first)
  if (!isTurn && !isReversed)
    throw differ(`${a.route} and ${b.route} at once`, [ofTurn, ofReversed], [first, second])
  // Where both orders explain the answers, the record may show which is right.
  const right = recordOf(reversed)
  const isOnRecord = async () =>
    differenceOf(recordOf(inTurn), right) === null
      ? isPlannedInReverse([a, b], newsOf(seen))
      : differenceOf(right, await readRecord()) === null
  const wasReversed = isReversed && (!isTurn || (await isOnRecord()))
  Object.assign(state, wasReversed ? reversed : inTurn)
  return wasReversed ? [1, 0] : [0, 1]
}

function matches(expected: Expected, { status, body, dueRemaining, code, retryAfter }: Answered): boolean {
  if (status !== expected.status) return false
  if (expected.code !== undefined && (code !== expected.code || retryAfter === null)) return false
  if ('says' in expected) {
    const { detail } = (body ?? {}) as { detail?: unknown }
    return typeof detail === 'string' && expected.says.every((fact) => detail.includes(fact))
  }
  if (expected.dueRemaining !== undefined && dueRemaining !== String(expected.dueRemaining)) return false
  return isLike(expected.body, body)
}

/** Equal, except for texts that only the program can know. */
function isLike(expected: unknown, seen: unknown): boolean {
  if (typeof expected !== 'object' || expected === null || Array.isArray(expected)) {
    return isDeepStrictEqual(expected, seen)
  }
  if (typeof seen !== 'object' || seen === null) return false
  const names = Object.keys(expected)
  if (!isDeepStrictEqual(names, Object.keys(seen))) return false
  const [a, b] = [expected as Record<string, unknown>, seen as Record<string, unknown>]
  return names.every((name) =>
    a[name] === ANY_TEXT
      ? typeof b[name] === 'string' && b[name] !== ''
      : isDeepStrictEqual(a[name], b[name]),
  )
}

function judgePass(state: State, action: Pass, seen: PassSeen): void {
  if (state.frozen) {
    if (seen.refused !== 'database_frozen' || seen.fired.length + seen.payloads.length > 0)
      throw differ('a pass while the database is frozen', 'database_frozen', seen)
    return
  }
  if (action.isOverlapped && seen.overlap !== 'skipped')
    throw differ('a second pass', 'skipped', seen.overlap)
  action.meanwhile.forEach((call, i) => {
    judgeCall(state, call, seen.meanwhile.slice(i, i + 1))
  })
  const before = state.executions.length
  const expected = playPass(state, action)
  if (expected.kind !== 'passed') {
    if (seen.refused !== 'clock_disputed') throw differ('a pass while the clock is in doubt', null, seen)
    return
  }
  const { kind: _, fired, ...report } = expected
  learnIds(state, { before, fired: seen.fired })
  if (!isDeepStrictEqual({ ...report, plans_failed: [] }, seen.report))
    throw differ('a pass', report, seen.report)
  const firedSeen = seen.fired.map(({ id: __, amount, ...one }) => ({ ...one, amount: BigInt(amount) }))
  if (!isDeepStrictEqual(sorted(fired), sorted(firedSeen)))
    throw differ('what a pass fired', fired, firedSeen)
  judgeWakeUps(state, action, { seen, before })
}

/** A rehearsal fires what a pass would fire; the model is unchanged. */
function judgeRehearsal(state: State, price: string | null, seen: Seen): void {
  if (seen.do !== 'rehearse') throw differ('a rehearsal', 'rehearse', seen.do)
  // A rehearsal goes by the clock, a pass also by the latest report: where these differ it is a guess.
  if (state.reportedUntil > state.clock) return
  // A frozen database too: the rehearsal shows the tranches after a resume.
  const expected = playPass({ ...structuredClone(state), frozen: false }, { price, told: 'none' })
  const fired = expected.kind === 'passed' ? expected.fired : []
  const lines = fired.map(({ tenant, plan, amount, trigger }) => `${tenant} ${plan} ${amount} ${trigger}`)
  if (!isDeepStrictEqual(lines.sort(), seen.fired.toSorted())) throw differ('a rehearsal', lines, seen.fired)
}

/** The model's pass, run to its end. */
function playPass(state: State, told: Pick<Pass, 'price' | 'told'>) {
  const steps = pass(state, observedBy(state, told))
  for (;;) {
    const step = steps.next()
    if (step.done) return step.value
  }
}

const sorted = <T extends { key: string; tenant: string }>(list: readonly T[]): T[] =>
  [...list]
    .sort((a, b) => (`${a.tenant} ${a.key}` < `${b.tenant} ${b.key}` ? -1 : 1))
    .map(({ ...one }) => ({ ...one }))

function judgeWakeUps(
  state: State,
  action: Pass,
  { seen, before }: { seen: PassSeen; before: number },
): void {
  const wakeUps = wakeUpsOf(state.executions.slice(before))
  const payloads = wakeUps.map(({ tenant, count, earliest }) => ({
    tenant: tenant.name,
    body: {
      event: 'executions.available',
      partner_slug: tenant.partner.slug,
      environment: tenant.environment,
      count,
      earliest_execution_id: earliest,
    },
  }))
  const inOrder = (list: readonly unknown[]): string[] => list.map(show).sort()
  if (!isDeepStrictEqual(inOrder(payloads), inOrder(seen.payloads))) {
    throw differ('wake-ups', payloads, seen.payloads)
  }
  if (action.hanging && seen.hanging) judgeCall(state, action.hanging.call, [seen.hanging])
  const sent = sentTo(action.receivers, wakeUps)
  for (const _ of wake(state, sent));
  const delivered = sent.filter(({ attempt }) => attempt.failure === null).length
  const woken = { sent: delivered, failed: sent.length - delivered }
  if (!isDeepStrictEqual(woken, seen.woken)) throw differ('how many wake-ups were sent', woken, seen.woken)
}

/** The lines that only one of the two records has; null when they agree. */
export function differenceOf(model: Lines, program: Lines): string | null {
  const lines: string[] = []
  const records: string[] = []
  for (const what of Object.keys(model) as (keyof Lines)[]) {
    const known = lines.length
    const [mine, its] = [new Set(model[what]), new Set(program[what])]
    for (const line of mine) if (!its.has(line)) lines.push(`  model only:   ${what}: ${line}`)
    for (const line of its) if (!mine.has(line)) lines.push(`  program only: ${what}: ${line}`)
    if (model[what].length !== program[what].length)
      lines.push(`  ${what}: ${model[what].length} and ${program[what].length}`)
    if (lines.length > known) records.push(what)
  }
  if (records.length === 0) return null
  return `what is on record differs: ${records.join(', ')}\n${lines.slice(0, 12).join('\n')}`
}
