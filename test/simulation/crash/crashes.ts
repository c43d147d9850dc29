// What the crashes of a life came to.

export type Crashes = {
  all: number
  /** Those that left something of what was being done. */
  afterCommit: number
  /** Those that left a tranche of an unfinished pass. */
  afterFiring: number
}

export const noCrashes = (): Crashes => ({ all: 0, afterCommit: 0, afterFiring: 0 })

/** Adds `more` to `crashes`. */
export function addCrashes(crashes: Crashes, more: Crashes): void {
  crashes.all += more.all
  crashes.afterCommit += more.afterCommit
  crashes.afterFiring += more.afterFiring
}
