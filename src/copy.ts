// A copy of a whole database, between any two of them: locked, copied table by table, verified, and only then named.

import { createHash } from 'node:crypto'
import { REPORTS } from './billing/columns.ts'
import { checksumOf } from './billing/export.ts'
import type { Frozen } from './core/frozen.ts'
import { periodOf } from './core/month.ts'
import type { Partner } from './core/partner.ts'
import { Problem } from './core/problem.ts'
import { counted, quoted } from './core/text.ts'
import type { Instant } from './core/time.ts'
import { IN_VARIABLE, namedInCommand } from './store/address.ts'
import {
  type FrozenAtBirth,
  frozenByRestore,
  type HeldSource,
  type NewTarget,
  type Restoring,
  type Rows,
  refuseMovedCopy,
  rowsOf,
} from './store/copy-interface.ts'
import type { Database } from './store/database.ts'
import { movedInVain, refuseFrozen } from './store/frozen.ts'
import type { AuditEntry, Store } from './store/store.ts'
import { TABLES, type Table } from './store/tables.ts'

export type CopyOptions = {
  now: Instant
  /** The audit entry of the freeze, if the source is to be frozen as moved at the moment of the copy. */
  seal: AuditEntry | null
  /** Replaces the database at the target; on a server the old schema is kept. */
  replace: boolean
  /** A move also checks the rules of the ledger. A backup copies a file as it is, faults included. */
  kind: 'move' | 'backup'
  /** Freezes the copy before it gets its name. */
  restore?: Restoring
  /** Called with the share that is done, from 0 to 1, and the present step. */
  show: (share: number, doing: string) => void
}

export type Copied = {
  tables: CopiedTable[]
  closedMonths: number
  /** Files beside the source that were read for a part of it. */
  playedIn: string[]
  /** When the source moved, if it has by now. */
  movedAt: Instant | null
  replaced: string | null
  /** Null on a server. */
  bytes: number | null
}

/**
 * Throws database_moved for a source that has moved elsewhere, database_exists for a target that exists, bad_file for
 * a source in which the check finds faults, storage_failed for a copy that differs. A failure leaves the target
 * unchanged, and the source as it was unless the message says otherwise.
 */
export async function copyDatabase(from: Database, to: Database, options: CopyOptions): Promise<Copied> {
  const { now, replace, kind } = options
  const source = await from.hold({ fromWriters: options.seal !== null, untouched: kind === 'backup' })
  try {
    const frozen = await source.frozen()
    if (kind === 'move' && frozen?.movedTo !== to.shownInFull) refuseFrozen(frozen)
    if (options.restore) refuseMovedCopy(frozen, options.restore.copy)
    const target = await to.make({ now, replace })
    try {
      return await carry({ source, target }, { from, to, frozen }, options)
    } finally {
      await target.close()
    }
  } finally {
    await source.release()
  }
}

type Ends = { from: Database; to: Database; frozen: Frozen | null }

async function carry(
  sides: { source: HeldSource; target: NewTarget },
  { from, to, frozen }: Ends,
  { now, kind, show, restore, seal }: CopyOptions,
): Promise<Copied> {
  const { source, target } = sides
  const read = await progressOf(source, show)
  for (const table of TABLES) await target.load(table, watched(source.blocks(table), read('copying')))
  show(LOADED, 'making indexes')
  await target.settle({ fileHistory: await source.fileHistory() })
  const tables = await compareRows(sides, TABLES, read('verifying'))
  const months = await closedMonths(source)
  if (kind === 'move') {
    show(1, 'checking')
    await proveThroughStore(sides, months, from.shown)
  }
  const movedBefore = kind === 'move' && frozen?.kind === 'moved'
  if (movedBefore) await source.awaitDurable()
  else if (seal) await source.freeze(movedTo(to, { frozen, by: seal.osUser, now }), seal)
  const birth = restore ? await mend(target, restore) : movedBefore ? copiedAgain(frozen) : null
  await to.rememberErasures(await from.erasures())
  const published = await target.publish(birth).catch((error) => {
    throw seal && !movedBefore ? movedInVain(error, from.shown) : error
  })
  const movedAt = movedBefore ? frozen.at : seal && now
  return { tables, closedMonths: months.length, playedIn: source.playedIn, movedAt, ...published }
}

type Moving = { frozen: Frozen | null; by: string; now: Instant }
const movedTo = ({ shownInFull }: Database, { frozen, by, now }: Moving): Frozen => ({
  kind: 'moved',
  at: now,
  by,
  reason: `moved to ${shownInFull}`,
  movedTo: shownInFull,
  replaced: frozen?.replaced ?? [],
})

/** The copy of a moved source; it is no longer known whether that was frozen before it moved. */
const copiedAgain = ({ by, replaced }: Frozen): FrozenAtBirth => ({
  kind: 'operator',
  by,
  reason: 'copied again from a database that had moved here already',
  earlier: replaced,
})

async function mend(target: NewTarget, restoring: Restoring): Promise<FrozenAtBirth> {
  const sinceCopy = await target.readReplaced()
  const store = await target.openStore()
  try {
    await restoring.mend(store, sinceCopy, restoring.audit)
    return frozenByRestore(restoring, sinceCopy?.names.slice(1) ?? [])
  } finally {
    await store.close()
  }
}

async function proveThroughStore(
  { source, target }: { source: HeldSource; target: NewTarget },
  months: readonly string[],
  name: string,
): Promise<void> {
  const store = await target.openStore()
  try {
    await refuseFaults(store, name)
    if (source.store) {
      const both: Sides<Store> = { source: source.store, target: store }
      await compareExports(both, monthsWithPartners(months, await source.store.listPartners()))
    }
  } finally {
    await store.close()
  }
}

/** Copying the rows takes about as long as reading them again on both sides. */
const PASSES = 3
const LOADED = 1 / PASSES

async function progressOf(source: HeldSource, show: CopyOptions['show']) {
  let rows = 0
  for (const table of TABLES) rows += await source.count(table)
  let read = 0
  return (doing: string) => (more: number) => {
    read += more
    show(read / (PASSES * Math.max(1, rows)), doing)
  }
}

async function* watched<T extends { rows: number }>(
  blocks: AsyncIterable<T>,
  read: (rows: number) => void,
): AsyncGenerator<T> {
  for await (const block of blocks) {
    yield block
    read(block.rows)
  }
}

// Verifies a copy: the rows are counted and hashed on both sides, and the reports of closed months are compared byte by
// byte. Both sides are read again for this.

type CopiedTable = { name: string; rows: number; sha256: string }

type Sides<T> = { source: T; target: T }

/** Throws storage_failed for a table that differs. `read` is called with the number of rows read. */
export async function compareRows(
  { source, target }: Sides<Rows>,
  tables: readonly Table[],
  read: (rows: number) => void,
): Promise<CopiedTable[]> {
  const compared: CopiedTable[] = []
  for (const table of tables) {
    const counts = [await source.count(table), await target.count(table)]
    const [here, there] = [await hashRows(source, table, read), await hashRows(target, table, read)]
    const rows = new Set([...counts, here.rows, there.rows])
    if (rows.size > 1) throw differs(table.name, `it has ${counts[0]} rows, the copy ${counts[1]}`)
    if (here.sha256 !== there.sha256) throw differs(table.name, 'its rows differ')
    compared.push({ name: table.name, ...here })
  }
  return compared
}

async function hashRows(
  side: Rows,
  table: Table,
  read: (rows: number) => void,
): Promise<Omit<CopiedTable, 'name'>> {
  const hash = createHash('sha256')
  let rows = 0
  for await (const block of side.blocks(table)) {
    hash.update(block.text)
    rows += block.rows
    read(block.rows)
  }
  return { rows, sha256: hash.digest('hex') }
}

const differs = (what: string, how: string): Problem =>
  new Problem(
    'storage_failed',
    `The copy differs from its source in ${what} (${how}), so it was thrown away: run it again.`,
  )

const CLOSED_MONTHS = TABLES.filter(({ name }) => name === 'closed_months')

async function closedMonths(side: Rows): Promise<string[]> {
  const months: string[] = []
  for (const table of CLOSED_MONTHS)
    for await (const block of side.blocks(table))
      for (const { month } of rowsOf(block, table)) months.push(String(month))
  return months
}

/** Months that have exports: before the first partner there are none, though older versions could close such months. */
export function monthsWithPartners(
  months: readonly string[],
  partners: readonly Pick<Partner, 'createdAt'>[],
): string[] {
  return months.filter((month) => partners.some(({ createdAt }) => createdAt < periodOf(month).end))
}

/** Throws storage_failed for a closed month whose exports differ in any byte. */
async function compareExports({ source, target }: Sides<Store>, months: readonly string[]): Promise<void> {
  const filter = { slug: null, environment: null }
  for (const month of months)
    for (const report of REPORTS) {
      const reading = { periods: [{ ...periodOf(month), final: true }], filter }
      const form = { report, format: 'csv' } as const
      const here = await checksumOf({ ...reading, store: source }, form)
      const there = await checksumOf({ ...reading, store: target }, form)
      if (here.sha256 !== there.sha256) throw differs(`the ${report} of ${month}`, 'its export differs')
    }
}

/** Throws bad_file when the check finds faults in the copy, and so in the source. */
async function refuseFaults(store: Store, source: string): Promise<void> {
  const faults = await store.findFaults()
  const [first] = faults
  if (!first) return
  const named = namedInCommand(source)
  const db = named === IN_VARIABLE ? `"${named}"` : quoted(named)
  throw new Problem(
    'bad_file',
    `The check finds ${counted(faults.length, 'fault')} in ${source}, such as ${first.kind} ${first.subject}: ` +
      `${first.message}. Nothing was copied: run \`tranche --db ${db} check\`.`,
  )
}
