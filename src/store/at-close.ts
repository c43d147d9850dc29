// What a store still has to write when it is closed: it waits for that, but not for long.

/** Neither a lock that others hold nor a server that does not answer may keep a process that is told to stop. */
const WAIT_MAX_MS = 3_000

export async function waitAtClose(written: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise((resolve) => {
    timer = setTimeout(resolve, WAIT_MAX_MS)
  })
  await Promise.race([written, late])
  clearTimeout(timer)
}
