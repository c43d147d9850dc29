// The trades of a month by hand: every row is read as text, in pages, and nothing is made of it.

import { TRADES_BY_HAND } from '../trades.ts'
import type { RawWork } from './raw.ts'

const PAGE = 1_000

export const rawTrades: RawWork = async (client, count) => async () => {
  await Promise.all([
    client.query('begin'),
    client.query(`declare trades no scroll cursor for ${TRADES_BY_HAND}`),
  ])
  let read = 0
  for (;;) {
    const { rows } = await client.query({ text: `fetch ${PAGE} from trades`, rowMode: 'array' })
    read += rows.length
    if (rows.length < PAGE) break
  }
  if (read < count) throw new Error(`${read} trades are there, and ${count} are to be read`)
  await client.query('commit')
}
