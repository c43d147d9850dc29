// Whose turn it is to use a connection: there are few, and a tenant whose calls all wait for something would take them
// all. A tenant takes one only while more are free than it already holds. So the first tenant with a crowd of calls
// gets about half, the next one half of the rest, and a tenant that has none gets one. Background work never takes the
// last connection, nor a tenant the last two, so a key can always be looked up at once.

/** A tenant, `unknown` while its key is being looked up, or `none` for background work: passes, metrics. */
export type Whose = number | 'unknown' | 'none'

/** How many connections each kind leaves free for more urgent kinds. */
const LEAVES = { tenant: 2, none: 1, unknown: 0 }

export type Places = {
  /**
   * Resolves when a connection may be used, with a function that gives its place back. The calls of each tenant wait in
   * a line of their own, and the lines take turns. Throws what `refusal` makes when nobody in its line was let in for
   * `stillMaxMs`.
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
    // A pass holds one session and needs others to make progress, so background work is not limited to a share.
    return left > (whose === 'none' ? 0 : (held.get(whose) ?? 0))
  }

  function count(whose: Whose, by: 1 | -1): void {
    free -= by
    const now = (held.get(whose) ?? 0) + by
    if (now === 0) held.delete(whose)
    else held.set(whose, now)
  }

  /** Takes a place; the function that it returns gives it back, once. */
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

  /** Lets in everyone who may go on now, one from each line in turn. */
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
    // A call that has a place has a connection, and that keeps the process alive.
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
