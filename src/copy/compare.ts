// Whether a copy is the same as its source: the rows are counted and hashed on both sides, and the reports of closed
// months are compared byte by byte. Nothing that was seen while the rows were carried counts.

import { createHash } from 'node:crypto'
import { REPORTS } from '../billing/export.ts'
import { textOf } from '../billing/export-text.ts'
import { periodOf } from '../core/month.ts'
import type { Partner } from '../core/partner.ts'
import { Problem } from '../core/problem.ts'
import type { Rows } from '../store/copying/ends.ts'
import { rowsOf } from '../store/copying/lines.ts'
import { TABLES, type Table } from '../store/copying/tables.ts'
import type { Store } from '../store/store.ts'

/** A table as it was found on both sides. */
export type CopiedTable = { name: string; rows: number; sha256: string }

export type Sides<T> = { source: T; target: T }

/** Throws storage_failed for a table that is not the same on both sides. `read` is told of rows as they are read. */
export async function compareRows(
  { source, target }: Sides<Rows>,
  tables: readonly Table[],
  read: (rows: number) => void,
): Promise<CopiedTable[]> {
  const compared: CopiedTable[] = []
  for (const table of tables) {
    const counts = [await source.count(table), await target.count(table)]
    const [here, there] = [await digestOf(source, table, read), await digestOf(target, table, read)]
    const rows = new Set([...counts, here.rows, there.rows])
    if (rows.size > 1) throw differs(table.name, `it has ${counts[0]} rows, the copy ${counts[1]}`)
    if (here.sha256 !== there.sha256) throw differs(table.name, 'its rows are others')
    compared.push({ name: table.name, ...here })
  }
  return compared
}

async function digestOf(
  side: Rows,
  table: Table,
  read: (rows: number) => void,
): Promise<{ rows: number; sha256: string }> {
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

/** The months that were reported as final. */
export async function closedMonths(side: Rows): Promise<string[]> {
  const months: string[] = []
  for (const table of CLOSED_MONTHS)
    for await (const block of side.blocks(table))
      for (const [month] of rowsOf(block, table)) months.push(String(month))
  return months
}

/**
 * The months of which there is an export to compare: nothing lies in those before the first partner, of which older
 * versions closed as many as were asked for.
 */
export function monthsWithPartners(
  months: readonly string[],
  partners: readonly Pick<Partner, 'createdAt'>[],
): string[] {
  return months.filter((month) => partners.some(({ createdAt }) => createdAt < periodOf(month).end))
}

/** Throws storage_failed for a closed month whose exports are not the same bytes on both sides. */
export async function compareExports(
  { source, target }: Sides<Store>,
  months: readonly string[],
): Promise<void> {
  for (const month of months)
    for (const report of REPORTS) {
      const [here, there] = [await exportOf(source), await exportOf(target)]
      if (here !== there) throw differs(`the ${report} of ${month}`, 'its export is other bytes')

      async function exportOf(store: Store): Promise<string> {
        const periods = [{ ...periodOf(month), final: true }]
        const hash = createHash('sha256')
        const reading = { store, periods, filter: { slug: null, environment: null } }
        for await (const { text } of textOf(reading, { report, format: 'csv' })) hash.update(text)
        return hash.digest('hex')
      }
    }
}
