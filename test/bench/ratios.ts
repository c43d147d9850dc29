// The ratios that several rows have: ours to what is measured beside it.

import type { Ratio } from './row.ts'
import { inSeries } from './statistics.ts'

/** Our rate to that of another; of several, to what is left when each item passes through all of them. */
export const rateTo = (name: string, ...others: readonly string[]): Ratio => ({
  name: `rate to ${name}`,
  better: 'more',
  of: (seen) => seen('ours', 'per_second') / inSeries(...others.map((other) => seen(other, 'per_second'))),
})

/** The processor time of another, or of several in sum, to ours. */
export const cpuOf = (name: string, ...others: readonly string[]): Ratio => ({
  name: `CPU of ${name} to ours`,
  better: 'more',
  isSteady: true,
  of: (seen) => others.reduce((sum, other) => sum + seen(other, 'cpu_us'), 0) / seen('ours', 'cpu_us'),
})
