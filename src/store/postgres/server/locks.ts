// The advisory locks of a database, and the order in which they and rows are locked, so that no two transactions wait
// for each other: all -> tenants, ascending -> pass -> poll -> a tenant's row, for its webhook -> partner -> user ->
// plans -> schedules -> windows -> executions, each by ascending ids -> what is added -> the audit log. Rows are locked
// `for no key update`.

/** The first number of an advisory lock; the second is the tenant's where it is one of a tenant, else 0. */
export const LOCK = {
  /** Held shared by every writer, alone by whoever closes a month for all. */
  all: 1,
  /** Of one tenant: shared by its writers, alone by whoever has to see the last of them gone. */
  tenant: 2,
  /** Held by every hand of a pass, by its session. */
  pass: 3,
  /** Whoever joins a pass or leaves it. */
  passDoor: 4,
  /** Of one tenant: polls take turns. */
  poll: 5,
  /** An advance of a sandbox, held by its session. */
  advance: 6,
  /** An import of prices, held by its session. */
  import: 7,
  migrate: 8,
  /** Whoever numbers an adjustment. */
  numbering: 9,
  /** Whoever adds to the audit log, to the end of its transaction. */
  audit: 10,
  /** Whoever copies from here, shared, or to here, or takes the seal off, alone: held by its session. */
  copy: 11,
  /** Held shared by every session of a process that has the database open, alone by whoever puts another one in its place. */
  use: 12,
} as const
