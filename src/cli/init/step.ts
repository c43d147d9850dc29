// One step of init: what there will be, how to do it, and how to undo it.

export type Step = {
  /** What there is once it is done. */
  what: string
  /** Throws when something is in the way that only a person can decide about. */
  isDone: () => boolean
  perform: () => void | Promise<void>
  /** A command line that undoes it; null when that of another step does. */
  undo: string | null
}

/** What became of a step. */
export type Taken = { state: 'already' | 'done' | 'would'; what: string; undo: string | null }
