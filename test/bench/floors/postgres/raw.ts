// A process that does by hand what a transaction of ours has to write: prepared statements on the product's own schema,
// sent in a pipeline, a page of rows in each. No rule is checked, nothing is read that need not be, nobody is answered.

import pg from 'pg'
import type { RawJob } from '../../backend.ts'
import { serveRaw } from '../serve-raw.ts'
import { rawConfirmations } from './confirmations.ts'
import { rawPass } from './pass.ts'
import { rawPlans } from './plans.ts'
import { rawPolls } from './polls.ts'
import { rawRows } from './rows.ts'
import { rawTrades } from './trades.ts'

export type Client = pg.Client
/**
 * A piece of work on an open database. What it returns does items from one number up to another, in one transaction.
 */
export type RawWork = (
  client: Client,
  count: number,
) => Promise<(client: Client, from: number, to: number) => Promise<void>>

const WORKS = {
  confirmations: rawConfirmations,
  pass: rawPass,
  plans: rawPlans,
  polls: rawPolls,
  rows: rawRows,
  trades: rawTrades,
} satisfies Record<RawJob['work'], RawWork>

async function connected(database: string): Promise<Client> {
  const client = new pg.Client({ connectionString: database, pipeline: true } as pg.ClientConfig)
  await client.connect()
  // As ours: a plan made while a table was small would otherwise go through all of it.
  await client.query('set search_path to tranche; set enable_seqscan to off; set jit to off')
  return client
}

serveRaw(async ({ work, database, count, perCommit, connections = 1 }) => {
  const clients = await Promise.all(Array.from({ length: connections }, () => connected(database)))
  const some = await WORKS[work](clients[0] as Client, count)
  let next = 0
  const hand = async (client: Client): Promise<void> => {
    while (next < count) {
      const from = next
      next = Math.min(count, from + perCommit)
      await some(client, from, next)
    }
  }
  return {
    run: async () => void (await Promise.all(clients.map(hand))),
    close: async () => {
      for (const client of clients) await client.end()
    },
  }
})
