// The advisory locks of a database, and the order in which they and rows are locked, so that no two transactions wait
// for each other: all -> tenants, ascending -> pass -> poll -> a tenant's row, for its webhook -> partner -> user ->
// plans -> schedules -> windows -> executions, each by ascending ids -> what is added -> the audit log. Rows are locked
// `for no key update`.

/** The first number of an advisory lock; the second is the tenant's where it is one of a tenant, else 0. */
export const LOCK = {
  /** Held shared by every write, and exclusively to close a month for all. */
  all: 1,
  /**
   * Of one tenant: held shared by its writes, and exclusively by work that must wait until the last of them is done.
   */
  tenant: 2,
  /** Held by every hand of a pass, by its session. */
  pass: 3,
  /** To join a pass or leave it. */
  passDoor: 4,
  /** Of one tenant: polls take turns. */
  poll: 5,
  /** An advance of a sandbox, held by its session. */
  advance: 6,
  /** An import of prices, held by its session. */
  import: 7,
  migrate: 8,
  /** To number an adjustment. */
  numbering: 9,
  /** To add to the audit log; held until the end of the transaction. */
  audit: 10,
  /** Held by a session: shared to copy from here; exclusively to copy to here, or to take the seal off. */
  copy: 11,
  /**
   * Held shared by every session of a process that has the database open, and exclusively to put another one in its
   * place.
   */
  use: 12,
} as const
