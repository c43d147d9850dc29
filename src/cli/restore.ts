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
      const database = await cli.database()
      const { shown } = database
      await confirmOnTerminal(
        cli,
        `Replace ${shown} by ${copy}? What happened since that copy is gone from the service.`,
      )
      const audit = auditEntry(cli, 'database.restore', shown, { from: copy })
      const old = await database.restore(copy, { now: cli.machine.clock(), audit })
      const left = [
        old.database && `the old one is ${old.database}`,
        old.log && `the log that was beside it is ${old.log}`,
      ]
      print(cli, { file: shown, replaced: old.database, replaced_log: old.log }, () =>
        visible([`${shown} restored`, ...left.filter((part) => part !== null)].join('; ')),
      )
    })
}
