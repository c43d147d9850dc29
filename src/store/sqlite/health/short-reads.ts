// How monitoring reads what may be long: in pages, between which other requests get their turn.

/** Rows read without a break: a few milliseconds. */
export const PAGE_ROWS = 5_000

export const breathe = () => new Promise((resolve) => setImmediate(resolve))
