// Whose turn it is to use a connection: there are few, and a tenant whose calls all wait for something would have them all.
// A tenant takes one only while more are free than it holds already. So the first to come in a crowd gets about half, the
// next one half of what is left, and somebody who has none gets one. Work that no call waits for cannot keep the last one,
// nor a tenant the last two: whatever they wait for, a key is looked up at once.

/** A tenant, `unknown` while its key is being looked up, or `none` for what no call waits for: passes, metrics. */
export type Whose = number | 'unknown' | 'none'

/** How many each leaves to those who come first. */
const LEAVES = { tenant: 2, none: 1, unknown: 0 }

export type Places = {
  /**
   * Resolves when a connection may be used, with what gives its place back. What is of one wait in one line, and the lines
   * take turns. Throws what `refusal` makes when nobody of its line was let in for `stillMaxMs`.
   */
  take(whose: Whose): Promise<() => void>
}

export type PlaceOptions = { max: number; stillMaxMs: number; refusal: () => Error }

type Waiting = { goOn: () => void; refuse: () => void }
type Line = { waiting: Waiting[]; timer: NodeJS.Timeout }

export function createPlaces({ max, stillMaxMs, refusal }: PlaceOptions): Places {
  const held = new Map<Whose, number>()
  /** In the order of their turns; none is empty. */
  const lines = new Map<Whose, Line>()
  let free = max

  function mayTake(whose: Whose): boolean {
    const left = free - Math.min(LEAVES[typeof whose === 'number' ? 'tenant' : whose], max - 1)
    // What holds the session of a pass needs others to go on: it has no share.
    return left > (whose === 'none' ? 0 : (held.get(whose) ?? 0))
  }

  function count(whose: Whose, by: 1 | -1): void {
    free -= by
    const now = (held.get(whose) ?? 0) + by
    if (now === 0) held.delete(whose)
    else held.set(whose, now)
  }

  /** Takes a place; what gives it back does so once. */
  function taken(whose: Whose): () => void {
    count(whose, 1)
    let isOut = false
    return () => {
      if (isOut) return
      isOut = true
      count(whose, -1)
      letIn()
    }
  }

  /** Lets in whoever may go on now, one of each line after the other. */
  function letIn(): void {
    for (let whose = lines.keys().find(mayTake); whose !== undefined; whose = lines.keys().find(mayTake)) {
      const line = lines.get(whose)
      lines.delete(whose)
      const first = line?.waiting.shift()
      // To the end of the turns.
      if (line && line.waiting.length > 0) {
        lines.set(whose, line)
        line.timer.refresh()
      } else clearTimeout(line?.timer)
      first?.goOn()
    }
  }

  function lineOf(whose: Whose): Line {
    const known = lines.get(whose)
    if (known) return known
    const waiting: Waiting[] = []
    const timer = setTimeout(() => {
      lines.delete(whose)
      for (const { refuse } of waiting) refuse()
    }, stillMaxMs)
    // Whoever has a place has a connection, and that keeps the process.
    timer.unref()
    const line = { waiting, timer }
    lines.set(whose, line)
    return line
  }

  return {
    take(whose) {
      if (!lines.has(whose) && mayTake(whose)) return Promise.resolve(taken(whose))
      return new Promise((resolve, reject) => {
        lineOf(whose).waiting.push({
          goOn: () => resolve(taken(whose)),
          refuse: () => reject(refusal()),
        })
      })
    },
  }
}
