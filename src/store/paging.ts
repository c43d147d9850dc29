// How a long listing is read: page by page.

/** A page of a listing: at most `limit` rows behind `after`, which is the last row's cursor. */
export type PageRequest = { after: number | string | null; limit: number }
