// Every row of a database read once as text, in pages; nothing is made of it.

import { TABLES } from '../../../../src/store/tables.ts'
import type { RawWork } from './raw.ts'

const PAGE = 1_000

export const rawRows: RawWork = async () => async (client, from, to) => {
  for (const { name } of TABLES.slice(from, to)) {
    await client.query('begin')
    await client.query(`declare every no scroll cursor for select * from ${name}`)
    for (;;) {
      const { rows } = await client.query({ text: `fetch ${PAGE} from every`, rowMode: 'array' })
      if (rows.length < PAGE) break
    }
    await client.query('commit')
  }
}
