// How many plans of a user one transaction of a disable stops, in both stores.

/** On SQLite some ten milliseconds of work; on PostgreSQL, their rows stay locked meanwhile. */
export const PLANS_PER_PAGE = 250
