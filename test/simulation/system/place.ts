// The place of a life: a file, or a database on a server, and copies of them. A place is plain data, so that another
// process can open it too.

import { randomUUID } from 'node:crypto'
import { existsSync, globSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import type { Instant } from '../../../src/core/time.ts'
import type { Machine } from '../../../src/machine.ts'
import { openStore as openServerStore } from '../../../src/store/postgres/open.ts'
import { LOCK } from '../../../src/store/postgres/server/locks.ts'
import { SCHEMA } from '../../../src/store/postgres/server/migrate.ts'
import { openFile } from '../../../src/store/sqlite/file/connection.ts'
import { openStore as openFileStore } from '../../../src/store/sqlite/open.ts'
import type { Store } from '../../../src/store/store.ts'
import { openFresh } from '../../support/database.ts'
import { copyTemplate } from '../../support/postgres-server.ts'
import type { PurchaseTerms } from '../model/purchases.ts'
import type { CreditSeen } from '../observed.ts'

/** A database has its own address and that of the server on which it was made. */
export type Place = { store: 'sqlite'; file: string } | { store: 'postgres'; server: string; url: string }

/** The simulation's access to the data of a place. */
export type Access = {
  /** The value of --db. */
  address: string
  open: (clock: () => Instant) => Promise<Store>
  /** Begins `work` while another connection writes under the lock of every write; releases it when the work waits. */
  whileLocked: <T>(work: () => Promise<T>) => Promise<T>
  /** Resolves when no work of a dead process is in progress any more. */
  settled: () => Promise<void>
}

export const accessTo = (place: Place): Access =>
  place.store === 'sqlite' ? onSqlite(place.file) : onPostgres(place)

/** An empty place, and its removal. */
type Made = { place: Place; remove: () => Promise<void> }

/** `server` is the address of a server for a database there; null for a file. */
export async function makePlace(server: string | null): Promise<Made> {
  if (server !== null) {
    const { url, remove } = await makeDatabase(server)
    return { place: { store: 'postgres', server, url }, remove }
  }
  const folder = mkdtempSync(join(tmpdir(), 'tranche-simulation-'))
  return {
    place: { store: 'sqlite', file: join(folder, 'tranche.db') },
    remove: async () => rmSync(folder, { recursive: true, force: true }),
  }
}

// The store of the simulation on SQLite.

/** How long a write waits for the lock that another connection has. */
const LOCKED_MS = 2

const onSqlite = (file: string): Access => ({
  address: file,
  open: (clock) =>
    existsSync(file) ? openFileStore(file, { clock, create: false }) : openFresh(file, clock),
  async whileLocked(work) {
    const db = openFile(file)
    db.exec('begin immediate')
    // A write, so that a connection that read before it has an old view of the file.
    db.exec('update partners set updated_at = updated_at + 1 - 1')
    const answer = work()
    await new Promise((resolve) => setTimeout(resolve, LOCKED_MS))
    db.exec('commit')
    db.close()
    return answer
  },
  settled: async () => {},
})

// The store of the simulation on a PostgreSQL server.

type OnServer = Omit<Extract<Place, { store: 'postgres' }>, 'store'>

/** Makes a database with only the schema in it, and answers its address. */
async function makeDatabase(server: string): Promise<{ url: string; remove: () => Promise<void> }> {
  const name = `life_${randomUUID().replaceAll('-', '')}`
  await connected(server, (client) => copyTemplate(name, (sql) => client.query(sql)))
  const url = new URL(server)
  url.pathname = `/${name}`
  const remove = async () => {
    // The sessions that a killed process has left do not matter.
    await connected(server, (client) => client.query(`drop database ${name} with (force)`))
    for (const file of globSync(`${backupOf(url.href)}*`)) rmSync(file)
  }
  return { url: url.href, remove }
}

const onPostgres = ({ server, url }: OnServer): Access => ({
  address: url,
  open: (clock) => openServerStore(url, { clock, create: false }),
  whileLocked: (work) =>
    connected(url, async (client) => {
      await client.query('begin')
      await client.query(`select pg_advisory_xact_lock(${LOCK.all}, 0)`)
      // A write, so that a connection that read before it has an old view of the data.
      await client.query('update partners set updated_at = updated_at + 1 - 1')
      let isDone = false
      const answer = work().finally(() => {
        isDone = true
      })
      // A call that is refused without a write waits for nobody.
      while (!isDone && (await client.query(WAITING)).rowCount === 0);
      await client.query('commit')
      return answer
    }),
  settled: () =>
    connected(server, async (client) => {
      while ((await client.query(SESSIONS, [new URL(url).pathname.slice(1)])).rowCount !== 0);
    }),
})

const WAITING = 'select from pg_locks where not granted'
const SESSIONS = 'select from pg_stat_activity where datname = $1'

async function connected<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  try {
    await client.query(`set search_path to ${SCHEMA}`)
    return await work(client)
  } finally {
    await client.end()
  }
}

// The commands of an operator and of a clerk of finance, with backups of the data and the way back.

/** The inputs of the commands: the value of --db, and the clock. */
type Keeper = { address: string; machine: Machine }

/** Runs a command line in this process. The commands are loaded on first use: few lives need them. */
async function command(
  argv: readonly string[],
  machine: Machine,
): Promise<{ code: number; out: string; err: string }> {
  const { runHere } = await import('../../support/service.ts')
  return runHere(argv, { machine })
}

async function done(argv: readonly string[], machine: Machine): Promise<void> {
  const { code, err } = await command(argv, machine)
  if (code !== 0) throw new Error(`tranche ${argv.join(' ')} exits ${code}: ${err}`)
}

/** A backup for each place; a file's is beside it, so that another process finds it too. */
function backupOf(address: string): string {
  if (!address.includes('://')) return `${address}.backup`
  return join(process.env.TMPDIR ?? '/tmp', `${new URL(address).pathname.slice(1)}.backup`)
}

/** A restore needs the data for itself; the others are run while the program has them open. */
const KEEPING = {
  backup: (file: string) => ['backup', file, '--force'],
  restore: (file: string) => ['restore', file, '--force'],
  freeze: () => ['freeze', '--reason', 'to look'],
  resume: () => ['resume', '--yes'],
}

export const keep = (keeper: Keeper, what: keyof typeof KEEPING): Promise<void> =>
  done(['--db', keeper.address, ...KEEPING[what](backupOf(keeper.address))], keeper.machine)

/** The code of the refusal, or null. */
const refusalIn = ({ code, err }: { code: number; err: string }): string | null =>
  code === 0 ? null : JSON.parse(err).error.code

/** Books a purchase, at a shell that is no terminal. */
export async function recordPurchase(
  { address, machine }: Keeper,
  { tenant, plan, order, usd, btc, fee, at, yes }: PurchaseTerms,
): Promise<string | null> {
  const [slug = '', environment = ''] = tenant.split('/')
  const whose = ['--partner', slug, '--env', environment, '--plan', plan, '--order', order]
  const amounts = ['--usd', usd, '--btc', btc, ...(fee === null ? [] : ['--fee', fee])]
  const others = [...(at === null ? [] : ['--at', at]), '--reason', 'simulated', ...(yes ? ['--yes'] : [])]
  const argv = ['--db', address, '--json', 'trade', 'record', ...whose, ...amounts, ...others]
  return refusalIn(await command(argv, machine))
}

const LOWERED = /have lowered the volume of (\S+) by (\S+) USD/

/** Credits a cent of a partner's month, in a copy of the data, and answers the clerk's warning. */
export async function credit(
  { address, machine }: Keeper,
  { slug, month }: { slug: string; month: string },
): Promise<CreditSeen> {
  const folder = mkdtempSync(join(tmpdir(), 'tranche-office-'))
  try {
    const [copy, settings] = [join(folder, 'copy.db'), join(folder, 'settings.json')]
    const party = { name: 'Somebody', address: ['Somewhere'], country: 'US' }
    const issuer = { ...party, numbers: { prefix: 'R-' } }
    writeFileSync(settings, JSON.stringify({ issuer, partners: { [slug]: party } }))
    await done(['--db', address, 'backup', copy], machine)
    const billing = (...argv: string[]) =>
      command(['--db', copy, '--json', 'billing', ...argv, '--settings', settings], machine)
    const issued = await billing('issue', '--month', month, '--partner', slug)
    if (issued.code !== 0) return { refused: refusalIn(issued), lowered: null }
    const [invoice] = JSON.parse(issued.out)
    if (!invoice) return { refused: null, lowered: null }
    const told = await billing('credit', invoice.invoice_number, '--usd', '0.01', '--reason', 'simulated')
    if (told.code !== 0) return { refused: refusalIn(told), lowered: null }
    const { warnings } = JSON.parse(told.out) as { warnings: string[] }
    const lowered = warnings.map((text): [string, string] => {
      const [, later = '', usd = ''] = LOWERED.exec(text) ?? []
      return [later, usd]
    })
    return { refused: null, lowered }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
