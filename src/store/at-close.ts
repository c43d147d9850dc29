// What a store has still to write when it is closed: waited for, but not for long.

/** A lock that others hold, or a server that does not answer, keeps no process that is told to stop. */
const WAIT_MAX_MS = 3_000

export async function waitAtClose(written: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise((resolve) => {
    timer = setTimeout(resolve, WAIT_MAX_MS)
  })
  await Promise.race([written, late])
  clearTimeout(timer)
}
