// What the crashes of a life came to.

export type Crashes = {
  all: number
  /** Those that left something of what was being done. */
  afterCommit: number
  /** Those that left a tranche of an unfinished pass. */
  afterFiring: number
  /** Connections that ended while the process went on. */
  severed: number
  /** Those of them on which a commit was sent whose answer nobody read. */
  inCommit: number
  /** Those that a pass did not survive. */
  failed: number
}

export const noCrashes = (): Crashes => ({
  all: 0,
  afterCommit: 0,
  afterFiring: 0,
  severed: 0,
  inCommit: 0,
  failed: 0,
})

/** Adds `more` to `crashes`. */
export function addCrashes(crashes: Crashes, more: Crashes): void {
  for (const name of Object.keys(crashes) as (keyof Crashes)[]) crashes[name] += more[name]
}
