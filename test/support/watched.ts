// How long something takes, and for how much of that the event loop could do nothing else.

export type Watched<T> = { value: T; tookMs: number; stallMs: number }

/** Runs `work`; `stallMs` is the longest time in which no timer ran. */
export async function watched<T>(work: () => Promise<T>): Promise<Watched<T>> {
  let stallMs = 0
  let last = performance.now()
  const look = (): void => {
    const now = performance.now()
    stallMs = Math.max(stallMs, now - last)
    last = now
  }
  const timer = setInterval(look, 1)
  const from = performance.now()
  const value = await work()
  look()
  clearInterval(timer)
  return { value, tookMs: performance.now() - from, stallMs }
}
