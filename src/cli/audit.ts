// audit: what operators changed.

import { Command } from 'commander'
import { formatInstant } from '../core/instant.ts'
import type { ListedAuditEntry } from '../store/audit.ts'
import type { Cli } from './context.ts'
import { printList } from './terminal/print.ts'
import type { Column } from './terminal/table.ts'

export function auditCommand(cli: Cli): Command {
  return new Command('audit').description('what operators changed, when and who').action(() =>
    cli.withStore((store) =>
      printList(cli, {
        read: (page) => store.listAudit(page),
        cursor: (row) => row.auditId,
        json,
        columns: COLUMNS,
      }),
    ),
  )
}

const json = (row: ListedAuditEntry) => ({
  at: formatInstant(row.at),
  os_user: row.osUser,
  action: row.action,
  subject: row.subject,
  detail: row.detail,
})

const COLUMNS: Column<ReturnType<typeof json>>[] = [
  { title: 'AT', of: (row) => row.at },
  { title: 'WHO', of: (row) => row.os_user },
  { title: 'ACTION', of: (row) => row.action },
  { title: 'SUBJECT', of: (row) => row.subject },
  {
    title: 'DETAIL',
    of: (row) => (Object.keys(row.detail).length === 0 ? null : JSON.stringify(row.detail)),
  },
]
