// How the loops on a server ask: prepared statements, in a transaction whose statements do not wait for each other.

import type { QueryResult } from 'pg'
import type { Client } from './raw.ts'

export type Statement = { name: string; text: string }

export const ask = (
  client: Client,
  { name, text }: Statement,
  values: unknown[] = [],
): Promise<QueryResult> => client.query({ name, text, values })

/** `read` and what it locks go with the begin, `write` with the commit: two round trips. */
export async function transaction<T>(
  client: Client,
  read: () => Promise<T>,
  write: (seen: T) => Promise<unknown>[],
): Promise<void> {
  const [, seen] = await Promise.all([client.query('begin'), read()])
  await Promise.all([...write(seen), client.query('commit')])
}
