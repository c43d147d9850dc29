// Which test files share a process, so that all processes end at about the same time.

import { relative, resolve } from 'node:path'
import costs from '../costs.json' with { type: 'json' }

const ROOT = resolve(import.meta.dirname, '../..')

/**
 * Seconds, measured file by file: of processor time, for files that wait of waiting. The figures need not be right,
 * only in proportion, and a file that is not among them takes little.
 */
const COSTS: Record<string, number> = costs
const COST_OF_OTHERS = 0.3

/** The files of each process: the costliest first, each to the process that has least to do. None is empty. */
export function spread(files: readonly string[], processes: number): string[][] {
  const costOf = (file: string): number => COSTS[relative(ROOT, resolve(ROOT, file))] ?? COST_OF_OTHERS
  const batches = Array.from({ length: processes }, () => ({ cost: 0, files: [] as string[] }))
  for (const file of files.toSorted((a, b) => costOf(b) - costOf(a))) {
    const idlest = batches.reduce((least, other) => (other.cost < least.cost ? other : least))
    idlest.cost += costOf(file)
    idlest.files.push(file)
  }
  return batches.map((batch) => batch.files).filter((batch) => batch.length > 0)
}
