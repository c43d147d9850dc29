// Ours as a contestant: on what the run measures, and on a server also on a file beside it.

import type { Backend } from './backend.ts'
import { onFile } from './file/backend.ts'
import { known } from './process-cost.ts'
import type { Contestant, Figures, Scale } from './row.ts'

export const ON_FILE = 'ours, on a file'

/** `take` makes everything that is needed for its turns. */
export async function ours(
  { on }: Pick<Scale, 'on'>,
  take: (on: Backend) => Promise<Contestant['take']>,
): Promise<Contestant[]> {
  const own: Contestant = { name: 'ours', role: 'ours', take: await take(on) }
  return on.store === 'file' ? [own] : [own, { name: ON_FILE, role: 'ours', take: await take(onFile) }]
}

/** A turn of so many items, with what a server has written to its log meanwhile. */
export async function withWal(on: Backend, items: number, turn: () => Promise<Figures>): Promise<Figures> {
  const before = await on.walBytes()
  const figures = await turn()
  return { ...figures, ...known({ wal_bytes: ((await on.walBytes()) - before) / items }) }
}
