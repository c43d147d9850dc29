// audit: operators' changes.

import { Command, Option } from 'commander'
import { usage } from '../../core/problem.ts'
import { formatInstant, type Instant } from '../../core/time.ts'
import type { ListedAuditEntry, Store } from '../../store/store.ts'
import { partnerNamed } from '../command.ts'
import type { Cli } from '../context.ts'
import { slug, time } from '../options.ts'
import { type Column, type Listing, pagesOf, printList, write } from '../terminal.ts'

type AuditOptions = { since?: Instant; until?: Instant; partner?: string; format: 'table' | CsvVersion }

export function auditCommand(cli: Cli): Command {
  return new Command('audit')
    .description('what operators changed, when and who')
    .option('--since <time>', 'from this date or time on, in UTC, or 24h ago', time(cli.machine.clock))
    .option('--until <time>', 'before this date or time, which is not included', time(cli.machine.clock))
    .option('--partner <slug>', 'about this partner, its keys, users, plans, webhooks and executions', slug)
    .addOption(
      new Option('--format <format>', 'csv-2 also has the partner of each entry')
        .choices(['table', 'csv', 'csv-2'])
        .default('table'),
    )
    .action((options: AuditOptions) => {
      if (cli.globals().json && options.format !== 'table')
        throw usage('--json answers with JSON: leave it out for CSV.')
      return cli.withStore((store) => list(cli, store, options))
    })
}

async function list(cli: Cli, store: Store, { since, until, partner, format }: AuditOptions): Promise<void> {
  if (partner !== undefined) await partnerNamed(store, partner)
  const filter = { since: since ?? null, until: until ?? null, slug: partner ?? null }
  const listing: Listing<ListedAuditEntry> = {
    read: (page) => store.listAudit(page, filter),
    cursor: (row) => row.auditId,
  }
  if (format !== 'table') return writeCsv(cli, listing, format)
  await printList(cli, { ...listing, json, columns: COLUMNS, none: 'No entries.' })
}

/** The columns of a version never change, because filed copies are compared later. */
const CSV_COLUMNS = {
  csv: ['at', 'os_user', 'action', 'subject', 'detail'],
  'csv-2': ['at', 'os_user', 'action', 'partner_slug', 'subject', 'detail'],
} as const
type CsvVersion = keyof typeof CSV_COLUMNS

/** Every cell except the first may contain text from outside, so it is guarded as in an export. */
async function writeCsv(cli: Cli, listing: Listing<ListedAuditEntry>, version: CsvVersion): Promise<void> {
  const { csvHeader, csvRow } = await import('../../billing/csv.ts')
  const columns = CSV_COLUMNS[version].map((name) =>
    name === 'at' ? { name } : { name, foreign: true as const },
  )
  const { out } = cli.streams
  await write(out, csvHeader(columns))
  for await (const page of pagesOf(listing))
    await write(out, page.map((row) => csvRow(columns, { ...json(row), detail: detailOf(row) })).join(''))
}

const detailOf = ({ detail }: Pick<ListedAuditEntry, 'detail'>): string | null =>
  Object.keys(detail).length === 0 ? null : JSON.stringify(detail)

const json = (row: ListedAuditEntry) => ({
  at: formatInstant(row.at),
  os_user: row.osUser,
  action: row.action,
  subject: row.subject,
  detail: row.detail,
  partner_slug: row.partnerSlug,
})

const COLUMNS: Column<ReturnType<typeof json>>[] = [
  { title: 'AT', of: (row) => row.at },
  { title: 'WHO', of: (row) => row.os_user },
  { title: 'ACTION', of: (row) => row.action },
  { title: 'PARTNER', of: (row) => row.partner_slug },
  { title: 'SUBJECT', of: (row) => row.subject },
  { title: 'DETAIL', of: detailOf },
]
