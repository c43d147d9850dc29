// Whose turn it is to use a connection: there are few, and a tenant whose calls all wait for something would have them all.
// A tenant takes one only while more are free than it holds already. So the first to come in a crowd gets about half, the
// next one half of what is left, and somebody who has none gets one.

/** So many are for what is no tenant's: looking up keys, passes, metrics. */
const KEPT = 1

export type Places = {
  /**
   * Resolves when a connection may be used, with what gives its place back. A tenant's own wait for each other; `null`
   * stands for nobody's. Tenants take turns. Throws what `refusal` makes after `waitMaxMs`.
   */
  take(tenant: number | null): Promise<() => void>
}

export type PlaceOptions = { max: number; waitMaxMs: number; refusal: () => Error }

export function createPlaces({ max, waitMaxMs, refusal }: PlaceOptions): Places {
  const kept = Math.min(KEPT, max - 1)
  const held = new Map<number, number>()
  /** Who waits, in the order of turns. */
  const lines = new Map<number | null, (() => void)[]>()
  let free = max

  const mayTake = (tenant: number | null): boolean =>
    tenant === null ? free > 0 : free - kept > (held.get(tenant) ?? 0)

  function add(tenant: number | null, by: 1 | -1): void {
    free -= by
    if (tenant === null) return
    const now = (held.get(tenant) ?? 0) + by
    if (now === 0) held.delete(tenant)
    else held.set(tenant, now)
  }

  /** A place that is taken: what gives it back, once. */
  function taken(tenant: number | null): () => void {
    add(tenant, 1)
    let isOut = false
    return () => {
      if (isOut) return
      isOut = true
      add(tenant, -1)
      letIn()
    }
  }

  /** Lets in whoever may go on now, one of each line after the other. */
  function letIn(): void {
    for (;;) {
      const tenant = lines.keys().find(mayTake)
      if (tenant === undefined) return
      const line = lines.get(tenant) ?? []
      const [first] = line
      leave(tenant, first)
      // To the end of the turns.
      if (line.length > 0) {
        lines.delete(tenant)
        lines.set(tenant, line)
      }
      first?.()
    }
  }

  function leave(tenant: number | null, who: (() => void) | undefined): void {
    const line = lines.get(tenant) ?? []
    const place = who ? line.indexOf(who) : -1
    if (place !== -1) line.splice(place, 1)
    if (line.length === 0) lines.delete(tenant)
  }

  return {
    take(tenant) {
      if (!lines.has(tenant) && mayTake(tenant)) return Promise.resolve(taken(tenant))
      return new Promise((resolve, reject) => {
        const goOn = () => {
          clearTimeout(timer)
          resolve(taken(tenant))
        }
        const timer = setTimeout(() => {
          leave(tenant, goOn)
          reject(refusal())
        }, waitMaxMs)
        const line = lines.get(tenant) ?? []
        line.push(goOn)
        lines.set(tenant, line)
      })
    },
  }
}
