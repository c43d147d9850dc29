// restore: a copy takes the place of the database.

import { Command } from 'commander'
import { visible } from '../core/visible.ts'
import { auditEntry } from './audit-entry.ts'
import type { Cli } from './context.ts'
import { confirmOnTerminal } from './terminal/confirm.ts'
import { print } from './terminal/print.ts'

export function restoreCommand(cli: Cli): Command {
  return new Command('restore')
    .description('put a copy in the place of the database; the old one is kept next to it')
    .argument('<file>', 'the copy')
    .action(async (copy: string) => {
      const { db } = cli.globals()
      await confirmOnTerminal(
        cli,
        `Replace ${db} by ${copy}? What happened since that copy is gone from the service.`,
      )
      const { restore } = await import('../store/sqlite/file/restore.ts')
      const audit = auditEntry(cli, 'database.restore', db, { from: copy })
      const { database, log } = restore(copy, db, { now: cli.machine.clock(), audit })
      const old = [database && `the old one is ${database}`, log && `the log that was beside it is ${log}`]
      print(cli, { file: db, replaced: database, replaced_log: log }, () =>
        visible([`${db} restored`, ...old.filter((part) => part !== null)].join('; ')),
      )
    })
}
