// A statement that SQLite parses when it is first used: the store has nearly two hundred, and a command uses a few.

import type { Statement } from 'better-sqlite3'

const METHODS = ['get', 'all', 'run', 'iterate'] as const
const MODES = ['pluck', 'raw'] as const

/**
 * What the store and its tests use of a statement: get, all, run, iterate, pluck and raw. `prepare` is called once,
 * when the first of the first four is; what it throws, the method throws.
 */
export function onFirstUse<S>(prepare: () => S): S {
  const modes: (typeof MODES)[number][] = []
  const statement = {} as Statement<unknown[]>
  for (const mode of MODES) {
    statement[mode] = () => {
      modes.push(mode)
      return statement
    }
  }
  for (const method of METHODS) statement[method] = (...values) => ready()[method](...values) as never

  /** From here on each method is the library's own. */
  function ready(): Statement<unknown[]> {
    const parsed = prepare() as Statement<unknown[]>
    for (const mode of modes) parsed[mode]()
    for (const method of METHODS) statement[method] = parsed[method].bind(parsed) as never
    return parsed
  }

  return statement as S
}
