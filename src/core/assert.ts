// Assertions: what holds unless there is a bug, checked where it matters.

/** Stops on what only a bug could bring about. Kept in production: a wrong ledger is worse than a failed request. */
export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Error(`assertion failed: ${message}`)
}

/** The default of a switch over a union: does not compile while a case is missing. */
export function unreachable(value: never): never {
  throw new Error(`unreachable: ${String(value)}`)
}
