// A pricing tier of which a test says only what it is about.

import type { Tier } from '../../src/core/fees.ts'
import { usd } from '../../src/core/money.ts'

/** The tier that everybody begins with: half a percent, and nothing else. */
export const tier = (more: Partial<Tier> = {}): Tier => ({
  name: 'starter',
  fromMonth: '1970-01',
  place: 1,
  minVolume: usd('0.00'),
  rateBps: 50,
  perActiveUser: usd('0.00'),
  monthlyMinimum: usd('0.00'),
  ...more,
})
