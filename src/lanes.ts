// A queue in which nobody waits behind somebody else's crowd: first come, first served within a lane, and the lanes
// take turns.

type Lanes<T extends object> = {
  readonly size: number
  /** Opens a lane, and returns what adds an item to it. */
  open: () => (item: T) => void
  /** Takes the first item of the lane whose turn it is; undefined when nothing waits. */
  take: () => T | undefined
}

/** A lane stays with the caller that opened it, so that nothing has to be looked up, made or dropped for an item. */
export function createLanes<T extends object>(): Lanes<T> {
  /** The lanes in which something waits, in the order of their turns. */
  const line: T[][] = []
  let size = 0
  return {
    get size() {
      return size
    },
    open() {
      const lane: T[] = []
      return (item) => {
        if (lane.length === 0) line.push(lane)
        lane.push(item)
        size += 1
      }
    },
    take() {
      const lane = line.shift()
      if (!lane) return undefined
      const item = lane.shift()
      // To the end of the line.
      if (lane.length > 0) line.push(lane)
      size -= 1
      return item
    },
  }
}
