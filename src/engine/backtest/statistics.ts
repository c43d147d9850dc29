// The statistics of a backtest: order statistics, and intervals by bootstrap over calendar blocks.

import { seededRandom } from '../../core/seeded-random.ts'

export const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length

/** The smallest value with at least a share `q` of the values at or under it. */
export function quantile(values: readonly number[], q: number): number {
  const sorted = Float64Array.from(values).sort()
  return sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)] ?? Number.NaN
}

const RESAMPLES = 2_000
const SEED = 20_260_105

/**
 * A 95 % interval for the mean, by drawing whole calendar blocks with replacement: windows that overlap, or share a
 * week of the market, are not independent. Deterministic.
 */
export function meanInterval(
  values: readonly number[],
  blockOf: (index: number) => number,
): [number, number] {
  const blocks = new Map<number, { sum: number; n: number }>()
  values.forEach((value, i) => {
    const block = blocks.get(blockOf(i)) ?? { sum: 0, n: 0 }
    block.sum += value
    block.n += 1
    blocks.set(blockOf(i), block)
  })
  const drawn = [...blocks.values()]
  const random = seededRandom(SEED)
  const means = Array.from({ length: RESAMPLES }, () => {
    let sum = 0
    let n = 0
    for (let i = 0; i < drawn.length; i++) {
      const block = drawn[Math.floor(random() * drawn.length)]
      sum += block?.sum ?? 0
      n += block?.n ?? 0
    }
    return sum / n
  })
  return [quantile(means, 0.025), quantile(means, 0.975)]
}
