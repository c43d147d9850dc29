import { statSync } from 'node:fs'
import { Command } from 'commander'
import { auditEntry, type Cli, confirmOnTerminal, print } from './context.ts'

export function backupCommand(cli: Cli): Command {
  return new Command('backup')
    .description('copy the database while it is in use; the copy is checked before it gets its name')
    .argument('<file>', 'where to')
    .option('--force', 'replace the file if it is there')
    .action(async (copy: string, { force }: { force?: boolean }) => {
      const { backUp } = await import('../store/sqlite/file/backup.ts')
      await backUp(cli.globals().db, copy, { replace: force ?? false })
      const json = { file: copy, bytes: statSync(copy).size }
      print(cli, json, () => `${json.file} ${json.bytes} bytes`)
    })
}

export function restoreCommand(cli: Cli): Command {
  return new Command('restore')
    .description('put a copy in the place of the database; what was there is kept beside it')
    .argument('<file>', 'the copy')
    .action(async (copy: string) => {
      const { db } = cli.globals()
      await confirmOnTerminal(
        cli,
        `Replace ${db} by ${copy}? What happened since that copy is gone from the service.`,
      )
      const { restore } = await import('../store/sqlite/file/backup.ts')
      const audit = auditEntry(cli, 'database.restore', db, { from: copy })
      const kept = restore(copy, db, { now: cli.machine.clock(), audit })
      print(cli, { file: db, replaced: kept }, () =>
        kept ? `${db} restored; the old one is ${kept}` : `${db} restored`,
      )
    })
}
