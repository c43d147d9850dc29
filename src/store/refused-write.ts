// Remembers a write that the disk had no room for: a probe of a single row may still find a place where that write did
// not.

/** How long a refusal counts when nothing is written after it. */
const REMEMBERED_MS = 60_000

export type RefusedWrites = {
  /** Throws the refusal of a recent write, unless another one has succeeded since. */
  throwRecent: () => void
  /** Follows a write to its end, and notes its error if that `isFull`. */
  follow<T>(writing: Promise<T>): Promise<T>
}

type Given = {
  isFull: (error: unknown) => boolean
  /** Whether there is still next to no room, if that can be seen. */
  isStillFull?: () => boolean
  elapsed?: () => number
}

export function createRefusedWrites({
  isFull,
  isStillFull = () => false,
  elapsed = () => performance.now(),
}: Given): RefusedWrites {
  let refused: { at: number; error: unknown } | null = null
  return {
    throwRecent() {
      if (refused && elapsed() - refused.at >= REMEMBERED_MS && !isStillFull()) refused = null
      if (refused) throw refused.error
    },
    follow: (writing) =>
      writing.then(
        (value) => {
          // A small one may have succeeded in the last free corner.
          if (refused && !isStillFull()) refused = null
          return value
        },
        (error) => {
          if (isFull(error)) refused = { at: elapsed(), error }
          throw error
        },
      ),
  }
}
