// A queue in which nobody waits behind somebody else's crowd: first come, first served within a lane, and the lanes
// take turns.

export type Lanes<T> = {
  readonly size: number
  add: (lane: string | number, item: T) => void
  /** Takes the first item of the lane whose turn it is; undefined when nothing waits. */
  take: () => T | undefined
}

export function createLanes<T>(): Lanes<T> {
  // In the order of their turns, without empty ones.
  const lanes = new Map<string | number, T[]>()
  let size = 0
  return {
    get size() {
      return size
    },
    add(lane, item) {
      const waiting = lanes.get(lane)
      if (waiting) waiting.push(item)
      else lanes.set(lane, [item])
      size += 1
    },
    take() {
      const [first] = lanes
      if (!first) return undefined
      const [lane, waiting] = first
      const item = waiting.shift()
      lanes.delete(lane)
      // To the end of the line.
      if (waiting.length > 0) lanes.set(lane, waiting)
      size -= 1
      return item
    },
  }
}
