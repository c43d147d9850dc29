// A copy of a whole database, between any two of them: held still, carried table by table, verified, and only then
// named.

import type { Instant } from '../core/instant.ts'
import type { AuditEntry } from '../store/audit.ts'
import type { HeldSource, NewTarget } from '../store/copying/ends.ts'
import { type Seal, sealedInVain, sealedProblem } from '../store/copying/seal-words.ts'
import { TABLES } from '../store/copying/tables.ts'
import type { Database } from '../store/database.ts'
import type { Store } from '../store/store.ts'
import {
  type CopiedTable,
  closedMonths,
  compareExports,
  compareRows,
  monthsWithPartners,
  type Sides,
} from './compare.ts'
import { refuseFaults } from './refuse-faults.ts'

export type CopyOptions = {
  now: Instant
  /** Seals the source at the moment that was copied. */
  seal: boolean
  /** What is in the place of the target gives way, and is kept where that is a server. */
  replace: boolean
  /**
   * A move goes by the rules of the ledger too. A backup is as good or bad as its database, seal included, and takes a
   * file as it is.
   */
  kind: 'move' | 'backup'
  /** An entry for the audit log of the copy, which it has before it gets its name. */
  audit?: AuditEntry
  /** Told how far it is, from 0 to 1, and what is being done. */
  show: (share: number, doing: string) => void
}

export type Copied = {
  tables: CopiedTable[]
  closedMonths: number
  /** Files beside the source that a part of it was read from. */
  playedIn: string[]
  /** Of the source, if it is sealed by now. */
  seal: Seal | null
  replaced: string | null
  /** Null on a server. */
  bytes: number | null
}

/**
 * Throws database_sealed for a source that has moved elsewhere, database_exists for a target that is taken, bad_file
 * for a source in which the check finds faults, storage_failed for a copy that is not the same. Whatever fails leaves
 * the target as it was, and the source unsealed unless it says otherwise.
 */
export async function copyDatabase(from: Database, to: Database, options: CopyOptions): Promise<Copied> {
  const { now, replace, kind } = options
  const source = await from.hold({ fromWriters: options.seal, untouched: kind === 'backup' })
  try {
    const seal = await source.seal()
    if (seal && kind === 'move' && seal.movedTo !== to.shownInFull) throw sealedProblem(seal)
    const target = await to.make({ now, replace })
    try {
      return await carry({ source, target }, { from, to, seal }, options)
    } finally {
      await target.close()
    }
  } finally {
    await source.release()
  }
}

type Ends = { from: Database; to: Database; seal: Seal | null }

async function carry(
  sides: { source: HeldSource; target: NewTarget },
  { from, to, seal }: Ends,
  { now, kind, show, audit, ...options }: CopyOptions,
): Promise<Copied> {
  const { source, target } = sides
  const read = await progressOf(source, show)
  for (const table of TABLES) await target.load(table, watched(source.blocks(table), read('copying')))
  show(LOADED, 'making indexes')
  await target.settle({
    fileHistory: await source.fileHistory(),
    seal: kind === 'backup' ? seal : null,
  })
  const tables = await compareRows(sides, TABLES, read('verifying'))
  const months = await closedMonths(source)
  if (kind === 'move') {
    show(1, 'checking')
    await proveThroughStore(sides, months, from.shown)
  }
  const sealed = options.seal && !seal ? { at: now, movedTo: to.shownInFull } : seal
  if (sealed && !seal) await source.setSeal(sealed)
  else if (seal && kind === 'move') await source.keepSeal()
  const published = await target.publish(audit ?? null).catch((error) => {
    throw sealed && !seal ? sealedInVain(error, from.shown) : error
  })
  return { tables, closedMonths: months.length, playedIn: source.playedIn, seal: sealed, ...published }
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

/** Carrying the rows, and reading them again on both sides, take about as long each. */
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
