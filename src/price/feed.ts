// Where a pass gets its price from: a SPEC on the command line becomes a feed.

import { type Price, price } from '../core/money.ts'
import { Problem } from '../core/problem.ts'
import type { ObservedPrice } from '../store/store.ts'

/** Reads one price, or null when it has none to give. A feed never stops a purchase. */
export type Feed = () => Promise<ObservedPrice | null>

const STATIC = /^static:(\d{1,8}(?:\.\d{1,8})?)$/

/** `none` or `static:PRICE`. Throws a usage Problem on any other SPEC. */
export function createFeed(spec: string): Feed {
  if (spec === 'none') return async () => null
  const fixed = STATIC.exec(spec)?.[1]
  if (fixed !== undefined && /[1-9]/.test(fixed)) return fixedPrice(price(fixed), spec)
  throw new Problem('usage', `Unknown price feed ${JSON.stringify(spec)}: give none or static:PRICE.`)
}

export const fixedPrice =
  (value: Price, source: string): Feed =>
  async () => ({ price: value, source })
