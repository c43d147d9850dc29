// How many calls are begun in one turn of the event loop. The system hands over one new connection per turn, so turns
// must stay short. Otherwise, a few busy connections, with a key or without, keep everybody else from connecting.

import { createLanes } from '../../lanes.ts'

/** A few milliseconds of work. */
export const CALLS_PER_TURN = 32

/**
 * Gives each connection a gate, which begins its calls as they come. Calls beyond that number begin in later turns,
 * with the connections taking turns.
 */
export function createGates(): () => (begin: () => void) => void {
  const waiting = createLanes<() => void>()
  let begun = 0

  function enter(begin: () => void): void {
    if (begun === 0) setImmediate(nextTurn)
    begun += 1
    begin()
  }

  function nextTurn(): void {
    begun = 0
    while (begun < CALLS_PER_TURN) {
      const begin = waiting.take()
      if (!begin) return
      enter(begin)
    }
  }

  return () => {
    const wait = waiting.open()
    return (begin) => {
      if (waiting.size === 0 && begun < CALLS_PER_TURN) enter(begin)
      else wait(begin)
    }
  }
}
