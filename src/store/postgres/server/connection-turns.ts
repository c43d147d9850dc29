// Whose turn it is to use a connection: there are few, and a tenant whose calls all wait for something would have them all.
// A tenant takes one only while more are free than it holds already. So the first to come in a crowd gets about half, the
// next one half of what is left, and somebody who has none gets one.

/** So many are for what is no tenant's: looking up keys, passes, metrics. */
const KEPT = 1

export type Places = {
  /**
   * Resolves when a connection may be used, with what gives its place back. A tenant's own wait in one line, and the lines
   * take turns; `null` is nobody's call. Throws what `refusal` makes when nobody of its line was let in for `stillMaxMs`.
   */
  take(tenant: number | null): Promise<() => void>
}

export type PlaceOptions = { max: number; stillMaxMs: number; refusal: () => Error }

type Waiting = { goOn: () => void; refuse: () => void }
type Line = { waiting: Waiting[]; timer: NodeJS.Timeout }

export function createPlaces({ max, stillMaxMs, refusal }: PlaceOptions): Places {
  const kept = Math.min(KEPT, max - 1)
  const held = new Map<number, number>()
  /** In the order of their turns; none is empty. */
  const lines = new Map<number | null, Line>()
  let free = max

  const mayTake = (tenant: number | null): boolean =>
    tenant === null ? free > 0 : free - kept > (held.get(tenant) ?? 0)

  function count(tenant: number | null, by: 1 | -1): void {
    free -= by
    if (tenant === null) return
    const now = (held.get(tenant) ?? 0) + by
    if (now === 0) held.delete(tenant)
    else held.set(tenant, now)
  }

  /** Takes a place; what gives it back does so once. */
  function taken(tenant: number | null): () => void {
    count(tenant, 1)
    let isOut = false
    return () => {
      if (isOut) return
      isOut = true
      count(tenant, -1)
      letIn()
    }
  }

  /** Lets in whoever may go on now, one of each line after the other. */
  function letIn(): void {
    for (let tenant = lines.keys().find(mayTake); tenant !== undefined; tenant = lines.keys().find(mayTake)) {
      const line = lines.get(tenant)
      lines.delete(tenant)
      const first = line?.waiting.shift()
      // To the end of the turns.
      if (line && line.waiting.length > 0) {
        lines.set(tenant, line)
        line.timer.refresh()
      } else clearTimeout(line?.timer)
      first?.goOn()
    }
  }

  function lineOf(tenant: number | null): Line {
    const known = lines.get(tenant)
    if (known) return known
    const waiting: Waiting[] = []
    const timer = setTimeout(() => {
      lines.delete(tenant)
      for (const { refuse } of waiting) refuse()
    }, stillMaxMs)
    // Whoever has a place has a connection, and that keeps the process.
    timer.unref()
    const line = { waiting, timer }
    lines.set(tenant, line)
    return line
  }

  return {
    take(tenant) {
      if (!lines.has(tenant) && mayTake(tenant)) return Promise.resolve(taken(tenant))
      return new Promise((resolve, reject) => {
        lineOf(tenant).waiting.push({
          goOn: () => resolve(taken(tenant)),
          refuse: () => reject(refusal()),
        })
      })
    },
  }
}
