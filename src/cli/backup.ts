import { existsSync, statSync } from 'node:fs'
import { Command } from 'commander'
import { Problem } from '../core/problem.ts'
import { type Cli, confirmOnTerminal, print } from './cli.ts'

export function backupCommand(cli: Cli): Command {
  return new Command('backup')
    .description('copy the database while it is in use; the copy is checked before it gets its name')
    .argument('<file>', 'where to')
    .option('--force', 'replace the file if it is there')
    .action(async (copy: string, { force }: { force?: boolean }) => {
      const { db } = cli.globals()
      if (!existsSync(db)) throw new Problem('database_not_found', `There is no database at ${db}.`)
      if (existsSync(copy) && !force)
        throw new Problem('file_exists', `${copy} is there already; --force replaces it.`)
      const { backUp } = await import('../store/sqlite/backup.ts')
      await backUp(db, copy)
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
      const { restore } = await import('../store/sqlite/backup.ts')
      const kept = restore(copy, db, cli.machine.clock())
      print(cli, { file: db, replaced: kept }, () =>
        kept ? `${db} restored; the old one is ${kept}` : `${db} restored`,
      )
    })
}
