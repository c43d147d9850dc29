// Digests for rows that a test has written past the program, so that they count as stored.

import { DIGESTED, type Digested, digestText, rowDigest } from '../../src/store/digests.ts'
import type { Database } from '../../src/store/sqlite/file/connection.ts'

const NAMES = Object.keys(DIGESTED) as Digested[]

/** Gives their digest to all rows of a file that have none. */
export function giveDigests(db: Pick<Database, 'function' | 'exec'>): void {
  for (const name of NAMES) {
    const { columns } = DIGESTED[name]
    db.function('row_digest', { varargs: true }, (...values: unknown[]) =>
      BigInt(rowDigest(name, Object.fromEntries(columns.map((column, i) => [column, values[i]])))),
    )
    db.exec(`update ${name} set digest = row_digest(${columns.join(', ')}) where digest = 0`)
  }
}

/** The same on a server, which cannot mix: the digests are those of rows from before. */
export async function giveDigestsOn(query: (text: string) => Promise<unknown>): Promise<void> {
  for (const name of NAMES)
    await query(
      `update ${name} set digest = ('x' || substr(encode(sha256(convert_to(${digestText(name)}, 'UTF8')), 'hex'),
         1, 12))::bit(48)::bigint where digest = 0`,
    )
}
