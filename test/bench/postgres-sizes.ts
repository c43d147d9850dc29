// What plans, tranches and trades take of a PostgreSQL server's disk and log: docs/performance.md has the figures.
//
//   node bin/with-node.mjs --import tsx test/bench/postgres-sizes.ts [PLANS] [DAYS] [CHECKPOINTS]
//
// Daily plans of 60.00 USD live for some days, hour by hour, on a server of its own with the settings it has by
// default: each tick fires, each instruction is polled and confirmed, 64 confirmations at a time. With a third argument
// there is a checkpoint before each tick, after which the server writes every page that changes to its log once as a
// whole.

import { randomBytes } from 'node:crypto'
import type { Execution } from '../../src/core/execution.ts'
import { HOUR_MS, plus } from '../../src/core/time.ts'
import { machineAt } from '../../src/machine.ts'
import { openStore } from '../../src/store/postgres/open.ts'
import { filled, link, poll, populate, report, sendPlan, T0, tick } from '../store/world.ts'
import { startServer } from '../support/postgres-server.ts'

const [plans = 5_000, days = 3, checkpoints = 0] = process.argv.slice(2).map(Number)
/** As the server has them by default; what tests set to be fast changes what is written. */
const DEFAULTS = { fsync: 'on', full_page_writes: 'on', max_wal_size: '1GB', synchronous_commit: 'on' }
const GROUP = 64

const server = await startServer(DEFAULTS)
try {
  const { machine, setClock } = machineAt(T0)
  const store = await openStore(server.url('postgres'), { clock: machine.clock, create: true })
  const { acme } = await populate(store)
  const one = async (sql: string) => Number((await server.ask<{ n: string }>(sql))[0]?.n)
  const wal = () => one(`select pg_current_wal_insert_lsn() - '0/0' as n`)
  const images = () => one('select pg_stat_force_next_flush(), (select wal_fpi from pg_stat_wal) as n')
  const total: Record<string, { n: number; bytes: number }> = {}
  /** Does it, and counts what it has written to the log for each of what it says that it did. */
  async function measured(what: string, work: () => Promise<number>): Promise<void> {
    const before = await wal()
    const n = await work()
    const sum = total[what] ?? { n: 0, bytes: 0 }
    total[what] = { n: sum.n + n, bytes: sum.bytes + (await wal()) - before }
  }

  const names = Array.from({ length: plans }, (_, i) => `user-${String(i).padStart(8, '0')}`)
  await measured('user', () => inGroups(names, (name) => link(store, acme, name)))
  await measured('plan', () =>
    inGroups(names, (name) => sendPlan(store, acme, { partnerUserId: name, partnerPlanId: `plan-${name}` })),
  )
  const begun = await wal()
  const beganAt = performance.now()
  for (let hour = 0; hour < days * 24; hour++) {
    setClock(plus(T0, hour * HOUR_MS))
    if (checkpoints > 0) await server.ask('checkpoint')
    await measured('tranche', async () => (await tick({ store, machine }, '60000')).executionsCreated)
    for (let n = 1; n > 0; ) {
      const out: Execution[] = []
      await measured('delivery', async () => out.push(...(await poll(store, acme))))
      n = out.length
      await measured('confirmation', () =>
        inGroups(out, ({ executionId, amount }) =>
          report(store, acme, executionId, filled(amount, randomBytes(12).toString('hex'))),
        ),
      )
    }
  }
  const bytesOfLog = (await wal()) - begun
  const seconds = (performance.now() - beganAt) / 1_000
  const fullPages = await images()
  await server.ask('vacuum analyze')
  const tranches = total.tranche?.n ?? 0
  const log = Object.entries(total).map(([what, { n, bytes }]) => [what, Math.round(bytes / n)])
  const figures = {
    plans,
    days,
    tranches,
    tranchesASecond: Math.round(tranches / seconds),
    fullPages,
    log: Object.fromEntries(log),
    tables: await sizes(),
  }
  process.stdout.write(
    `${JSON.stringify({ ...figures, logOfATranche: Math.round(bytesOfLog / tranches) }, null, 2)}\n`,
  )
  await store.close()

  async function sizes() {
    const rows = await server.ask<{ name: string; n: string; bytes: string; heap: string }>(
      `select relname as name, n_live_tup as n, pg_total_relation_size(relid) as bytes, pg_relation_size(relid) as heap
       from pg_stat_user_tables where n_live_tup > 100 order by relname`,
    )
    return rows.map(({ name, n, bytes, heap }) => ({
      name,
      rows: Number(n),
      bytes: Number(bytes),
      heap: Number(heap),
      each: Math.round(Number(bytes) / Number(n)),
    }))
  }
} finally {
  await server.stop()
}

/** Does it for each of them, so many at a time. */
async function inGroups<T>(items: readonly T[], work: (item: T) => Promise<unknown>): Promise<number> {
  for (let at = 0; at < items.length; at += GROUP) await Promise.all(items.slice(at, at + GROUP).map(work))
  return items.length
}
