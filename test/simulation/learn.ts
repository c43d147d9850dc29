// What only the program knows until it has said so, and the model has to take from it: ids, numbers, and the order of
// what was done at the same moment.

import type { Call } from './action.ts'
import { Difference } from './difference.ts'
import { idempotencyKey, type Late, type State } from './model/state.ts'
import type { LateSeen, News, PassSeen } from './system/observed.ts'

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
