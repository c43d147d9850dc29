// The ratios that several rows have: ours to what is measured beside it.

import type { Ratio, Seen } from './row.ts'
import { inSeries } from './statistics.ts'

/** Our rate to that of another; of several, to what is left when each item passes through all of them. */
export const rateTo = (name: string, ...others: readonly string[]): Ratio => ({
  name: `rate to ${name}`,
  better: 'more',
  of: (seen) => seen('ours', 'per_second') / inSeries(...others.map((other) => seen(other, 'per_second'))),
})

/** The same with the processor time of the database server, which works for anyone who asks it. */
export const wholeCpuOf = (name: string, ...others: readonly string[]): Ratio => {
  const whole = (seen: Seen, who: string): number => seen(who, 'cpu_us') + (seen(who, 'server_us') || 0)
  return {
    name: `CPU of ${name} to ours, with PostgreSQL's`,
    better: 'more',
    isSteady: true,
    of: (seen) => others.reduce((sum, other) => sum + whole(seen, other), 0) / whole(seen, 'ours'),
  }
}

/** The processor time of another, or of several in sum, to ours. */
export const cpuOf = (name: string, ...others: readonly string[]): Ratio => ({
  name: `CPU of ${name} to ours`,
  better: 'more',
  isSteady: true,
  of: (seen) => others.reduce((sum, other) => sum + seen(other, 'cpu_us'), 0) / seen('ours', 'cpu_us'),
})
