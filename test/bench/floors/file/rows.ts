// Every row of a database read once, as arrays of exact integers; nothing is made of it.

import { TABLES } from '../../../../src/store/tables.ts'
import type { RawWork } from './raw.ts'

export const rawRows: RawWork = (db) => {
  const reads = TABLES.map(({ name }) => db.prepare(`select * from ${name}`).safeIntegers().raw())
  return (i) => {
    for (const _ of reads[i]?.iterate() ?? []);
  }
}
