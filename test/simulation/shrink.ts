// Cuts a failing trace down to what it takes to fail, so that a person can read it.

import type { Action } from './action.ts'

/** Plays a trace and answers what went wrong, or null. */
export type Replay = (trace: readonly Action[]) => Promise<Error | null>

/**
 * Leaves out parts of a trace, ever smaller ones, as long as it goes wrong in the same way. Stops when no single action
 * can be left out, or after `budgetMs`. Null when the trace alone does not go wrong that way.
 */
export async function shrink(
  trace: readonly Action[],
  failure: Error,
  { replay, budgetMs }: { replay: Replay; budgetMs: number },
): Promise<Action[] | null> {
  const until = performance.now() + budgetMs
  const wanted = kindOf(failure)
  const fails = async (candidate: readonly Action[]) => {
    const error = await replay(candidate)
    return error !== null && kindOf(error) === wanted
  }
  let kept = [...trace]
  if (!(await fails(kept))) return null
  for (let size = Math.ceil(kept.length / 2); ; size = Math.ceil(size / 2)) {
    for (let from = 0; from < kept.length && performance.now() < until; ) {
      const candidate = kept.toSpliced(from, size)
      if (await fails(candidate)) kept = candidate
      else from += size
    }
    if (size === 1 || performance.now() >= until) return kept
  }
}

/** What went wrong, without what is different in each run. */
const kindOf = ({ message }: Error): string => (message.split('\n')[0] ?? '').replace(/exec_\w+|\d+/g, '#')
