// Measurements of time and memory, on machines that have other work to do.

const MEASUREMENTS_MAX = 3

/** Measures until a measurement is fine, three times at most: what is slow every time is slow. Answers the last one. */
export async function measure<T>(take: () => Promise<T>, isFine: (taken: T) => boolean): Promise<T> {
  let taken = await take()
  for (let n = 1; n < MEASUREMENTS_MAX && !isFine(taken); n++) taken = await take()
  return taken
}
