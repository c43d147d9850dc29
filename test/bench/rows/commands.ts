// The cost of an operator's and a clerk's commands: a start, a tick from cron that finds nothing to do, and commands
// that read the records of a month or a year.

import { join } from 'node:path'
import { monthBefore, periodOf } from '../../../src/core/month.ts'
import { DAY_MS, monthOf, plus } from '../../../src/core/time.ts'
import { machine } from '../../../src/machine.ts'
import { TABLES } from '../../../src/store/tables.ts'
import { addYear, fill, tradesIn, tradesOf } from '../../support/large-database.ts'
import { type Backend, plansWith } from '../backend.ts'
import { startRaw } from '../helper.ts'
import { forEach, type Run, run, runProgram } from '../program.ts'
import { counted, cpuOf, known, multiple, percentile, type Row, rateTo, type Take } from '../row.ts'

// The export of a month's trades, compared with the store's shell, which formats neither amounts nor times.

const USERS = 10_000

/** In the order and with the columns of the export. */
const TRADES = `select d.recorded_at, t.partner_slug, t.environment, u.partner_user_id, p.partner_plan_id,
    d.execution_id, d.partner_order_id, d.status, d.usd_amount, d.btc_amount, d.execution_price, d.partner_fee_usd,
    d.executed_at, d.failure_reason
  from trades d join tenants t on t.tenant_id = d.tenant_id join users u on u.user_id = d.user_id
    join plans p on p.plan_id = d.plan_id
  order by d.recorded_at, d.execution_id`
const SHELLS: Record<Backend['store'], [script: string, sql: string]> = {
  file: ['exec sqlite3 -csv "$1" "$2" > by-hand.csv', TRADES],
  postgres: [
    'exec psql -qX "$1" -c "$2" > by-hand.csv',
    `set search_path to tranche; copy (${TRADES}) to stdout (format csv)`,
  ],
}
const SHELL = 'sqlite3 or psql'

const billingExport: Row = {
  name: 'export',
  what: 'billing export of the trades of a month, to a file',
  main: 'per_second',
  ratios: [rateTo(SHELL, SHELL), cpuOf(SHELL, SHELL)],

  async prepare(stage, { on, pick }) {
    const trades = pick({ quick: 60_000, full: 5_000_000 })
    const month = monthBefore(monthOf(machine.clock()))
    const layout = { users: USERS, plans: 2 * USERS, trades, ...periodOf(month) }
    const { database } = await on.place(stage, 'trades', (tenantId, hex) =>
      tradesOf({ ...layout, tenantId }, hex),
    )
    const to = ['--output', join(stage.folder, 'trades.csv'), '--force']
    const argv = ['billing', 'export', '--month', month, '--report', 'trades', ...to]
    // The first export of a month closes it.
    await run(database, argv)
    const [script, sql] = SHELLS[on.store]
    const byHand = () =>
      runProgram('/bin/sh', ['-c', script, 'sh', database, sql], { cwd: stage.folder, database })
    return {
      on: `${counted(trades)} trades of ${counted(USERS)} users`,
      contestants: {
        ours: async () => forEach(await run(database, argv), trades),
        [SHELL]: async () => forEach(await byHand(), trades),
      },
    }
  },
}

// Commands over the records of a year, compared with reading each record once.

const DAYS = 365
const EVERY = 'every row, once'
const BESIDE_CHECK = ['reconcile', 'export', 'backup'] as const

const year: Row = {
  name: 'year',
  what: 'check, and other commands that read all of a year',
  main: 'cpu_us',
  store: 'file',
  roundsMax: 3,
  ratios: ['check', ...BESIDE_CHECK].map((command) =>
    multiple(`CPU of ${command} to ${EVERY}`, 'cpu_us', [
      command === 'check' ? 'ours' : `ours, ${command}`,
      EVERY,
    ]),
  ),

  async prepare(stage, { on, pick }) {
    const plans = pick({ quick: 20, full: 1_000 })
    const trades = tradesIn({ plans, days: DAYS })
    const end = periodOf(monthOf(machine.clock())).start
    const { database, tenantId } = await on.place(stage, 'year')
    fill(database, (db) => addYear(db, { tenantId, plans, days: DAYS, end }))
    const months = ['--from', monthOf(plus(end, -DAYS * DAY_MS)), '--to', monthOf(plus(end, -1))]
    const out = (name: string): string[] => [join(stage.folder, name), '--force']
    const argv = {
      reconcile: ['billing', 'reconcile', ...months],
      export: ['billing', 'export', ...months, '--report', 'trades', '--output', ...out('trades')],
      backup: ['backup', ...out('copy.db')],
    }
    // The first of them closes the months.
    await run(database, argv.reconcile)
    const command =
      (argv: readonly string[]): Take =>
      async () =>
        forEach(await run(database, argv), trades)
    const raw = await startRaw(stage, on.store)
    const tables = TABLES.length
    const every: Take = async () => {
      const { cpu_us = Number.NaN } = await raw({ work: 'rows', database, count: tables, perCommit: tables })
      return known({ cpu_us: (cpu_us * tables) / trades })
    }
    return {
      on: `${counted(trades)} trades of ${counted(plans)} daily plans`,
      contestants: {
        ours: command(['check']),
        ...Object.fromEntries(BESIDE_CHECK.map((name) => [`ours, ${name}`, command(argv[name])])),
        [EVERY]: every,
      },
    }
  },
}

// The start of a process.

const PLANS = 10_000
const IDLE = 'ours, idle tick'
const NODE = 'node -e 0'

const startUp: Row = {
  name: 'start-up',
  what: 'the start of a process: tranche version, an idle tick',
  main: 'ms',
  ratios: [
    multiple(`version to ${NODE}`, 'ms', ['ours', NODE]),
    multiple(`idle tick to ${NODE}`, 'ms', [IDLE, NODE]),
    multiple(`CPU of an idle tick to ${NODE}`, 'cpu_us', [IDLE, NODE]),
  ],

  async prepare(stage, { on, pick }) {
    const starts = pick({ quick: 5, full: 30 })
    const { database } = await on.place(stage, 'waiting', plansWith({ plans: PLANS, limits: 'in turns' }))
    const times =
      (start: () => Promise<Run>): Take =>
      async () => {
        const runs: Run[] = []
        for (let n = 0; n < starts; n++) runs.push(await start())
        const took = runs.map(({ ms }) => ms)
        const cpuMs = runs.reduce((sum, { cpuMs }) => sum + cpuMs, 0) / starts
        return known({ ms: percentile(took, 0.5), cpu_us: 1000 * cpuMs })
      }
    // The first start of all unpacks the addon.
    await run(database, ['tick', '--price', '60000'])
    return {
      on: `${starts} starts a turn; ${counted(PLANS)} plans that wait`,
      contestants: {
        ours: times(() => run(database, ['version'])),
        [IDLE]: times(() => run(database, ['tick', '--price', '60000'])),
        [NODE]: times(() => runProgram(process.execPath, ['-e', '0'], { cwd: stage.folder })),
      },
    }
  },
}

export const COMMANDS = [billingExport, year, startUp]
