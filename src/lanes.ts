// A fair queue: first come, first served within a lane, and the lanes take turns, so that a crowd in one lane delays no
// other. src/http/turns.ts lists every place where work waits fairly.

/** Each caller keeps its own lane, so that no item needs a look-up, and no lane has to be removed. */
export function createLanes<T extends object>() {
  /** The lanes with waiting items, in the order of their turns. */
  const line: T[][] = []
  let size = 0
  return {
    get size(): number {
      return size
    },
    /** Opens a lane, and returns the function that adds an item to it. */
    open(): (item: T) => void {
      const lane: T[] = []
      return (item) => {
        if (lane.length === 0) line.push(lane)
        lane.push(item)
        size += 1
      }
    },
    /** Takes the first item of the lane whose turn it is; undefined when nothing waits. */
    take(): T | undefined {
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
