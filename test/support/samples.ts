// Small things that several tests begin with: a price history, a tier, the code of a page, a folder to write to.

import { statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import type { Tier } from '../../src/core/fees.ts'
import { usd } from '../../src/core/money.ts'
import { gatherHistory, type History } from '../../src/engine/backtest.ts'

// A short price history, as the backtest reads it.

type Gathered = ReturnType<typeof gatherHistory>

export function historyOf(points: Parameters<Gathered['add']>[0]): History {
  const gathered = gatherHistory()
  gathered.add(points)
  return gathered.history()
}

// A pricing tier of which a test sets only the relevant terms.

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

// The code of a page.

/** The code blocks of a language, in their order. */
export const blocksOf = (page: string, language: string): string[] =>
  [...page.matchAll(new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``, 'g'))].map(([, block = '']) => block)

// The folder of the tests' temporary files: in memory if there is one with enough room.

const MEMORY = '/dev/shm'
const MEMORY_BYTES_MIN = 4 * 2 ** 30

export function scratch(): string {
  // The caller may have named a folder there, to empty it afterwards.
  if (tmpdir().startsWith(`${MEMORY}/`)) return tmpdir()
  try {
    const { bavail, bsize } = statfsSync(MEMORY)
    if (bavail * bsize > MEMORY_BYTES_MIN) return MEMORY
  } catch {
    // This system has none.
  }
  return tmpdir()
}
