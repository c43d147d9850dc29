// How a long listing is read: page by page.

/** A page of a listing: at most `limit` rows after `after`, the cursor of the previous page's last row. */
export type PageRequest = { after: number | string | null; limit: number }
