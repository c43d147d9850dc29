// Whether memory stays flat: what a run ends with is what it had once it was warm.

import assert from 'node:assert/strict'
import type { FuzzReport } from './fuzz.ts'

const MIB = 1024 * 1024
/** The share of a run after which caches are full and the heap has its size. */
const WARM_SHARE = 0.2
/** What the last fifth of a run may have more than the first fifth after the warm-up, by their medians. */
const GROWTH_MAX_BYTES = 16 * MIB
/** Fewer samples than this say nothing. */
const SAMPLES_MIN = 500

export type Growth = { warmBytes: number; lastBytes: number; mostBytes: number }

/** Null when the run was too short to tell. */
export function growthOf({ samples }: Pick<FuzzReport, 'samples'>): Growth | null {
  if (samples.length < SAMPLES_MIN) return null
  const resident = samples.map(({ residentBytes }) => residentBytes)
  const part = (from: number, to: number) => resident.slice(resident.length * from, resident.length * to)
  return {
    warmBytes: median(part(WARM_SHARE, 2 * WARM_SHARE)),
    lastBytes: median(part(1 - WARM_SHARE, 1)),
    mostBytes: Math.max(...resident),
  }
}

/** Throws when memory has grown by more than chance explains. */
export function assertFlat({ warmBytes, lastBytes }: Growth): void {
  const grown = lastBytes - warmBytes
  assert.ok(
    grown <= GROWTH_MAX_BYTES,
    `memory has grown by ${(grown / MIB).toFixed(1)} MiB since it was warm`,
  )
}

const median = (values: number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0
