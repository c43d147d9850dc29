// A month's users as they are read page by page: drawn up once, and the same for all pages.

import type { Billed, totalsJson } from './statement.ts'

/** How long a listing is remembered after its last page was asked for. */
const IDLE_MS = 60_000
/** The most listings at once; a bill of 100,000 users takes some tens of megabytes. */
const LISTINGS_MAX = 4

export type Listing = Pick<Billed, 'users'> & { totals: ReturnType<typeof totalsJson> }

export type Listings = {
  /** A listing that somebody is reading, or null. */
  find: (key: string) => Listing | null
  keep: (key: string, listing: Listing) => void
}

/** `key` names whose bill it is, the month, and where what it covers ends. */
export function createListings(): Listings {
  const kept = new Map<string, { listing: Listing; timer: NodeJS.Timeout }>()

  function drop(key: string): void {
    clearTimeout(kept.get(key)?.timer)
    kept.delete(key)
  }

  function keep(key: string, listing: Listing): void {
    drop(key)
    const [oldest] = kept.keys()
    if (oldest !== undefined && kept.size >= LISTINGS_MAX) drop(oldest)
    kept.set(key, { listing, timer: setTimeout(() => drop(key), IDLE_MS).unref() })
  }

  return {
    keep,
    find(key) {
      const found = kept.get(key)
      // What is read goes to the end of the line again.
      if (found) keep(key, found.listing)
      return found?.listing ?? null
    },
  }
}
