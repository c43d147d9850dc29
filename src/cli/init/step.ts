// One step of init: what there will be, how to get there and back.

export type Step = {
  /** What there is once it is done. */
  what: string
  /** Throws when something stands in the way that only a person can judge. */
  isDone: () => boolean
  perform: () => void | Promise<void>
  /** A command line that takes it back; null when that of another step does. */
  undo: string | null
}

/** What became of a step. */
export type Taken = { state: 'already' | 'done' | 'would'; what: string; undo: string | null }
