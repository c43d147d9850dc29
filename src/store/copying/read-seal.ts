// Where a database has moved to.

import { type Reader, sql } from '../common/reader.ts'
import { instant } from '../rows/instant.ts'
import type { Seal } from './seal-words.ts'

export type SealRow = { at: bigint; moved_to: string }
export const SEAL = sql<SealRow>('select at, moved_to from sealed')

export const sealIn = (row: SealRow | undefined): Seal | null =>
  row ? { at: instant(row.at), movedTo: row.moved_to } : null

export const sealReader =
  (reader: Reader): (() => Promise<Seal | null>) =>
  async () =>
    sealIn(await reader.get(SEAL))
