// Lists of plan ids that may be tens of millions long: every plan is due after a long outage. They take eight bytes an
// id; a Set takes five times as much, and cannot hold more than 2^24.

export type PlanIds = Float64Array

/** The ids of all lists in ascending order, each of them once. */
export function eachOnce(lists: readonly PlanIds[]): PlanIds {
  const ids = new Float64Array(lists.reduce((total, list) => total + list.length, 0))
  let end = 0
  for (const list of lists) {
    ids.set(list, end)
    end += list.length
  }
  ids.sort()
  let kept = 0
  for (const id of ids) if (kept === 0 || id !== ids[kept - 1]) ids[kept++] = id
  return ids.subarray(0, kept)
}
