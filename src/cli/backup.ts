// backup: a copy of the database, made while it is in use.

import { Command } from 'commander'
import { visible } from '../core/visible.ts'
import type { Cli } from './context.ts'
import { print } from './terminal/print.ts'

export function backupCommand(cli: Cli): Command {
  return new Command('backup')
    .description('copy the database while it is in use; the copy is checked before it gets its name')
    .argument('<file>', 'where to')
    .option('--force', 'replace the file if it is there')
    .action(async (copy: string, { force }: { force?: boolean }) => {
      const { bytes } = await (await cli.database()).backUp(copy, { replace: force ?? false })
      const json = { file: copy, bytes }
      print(cli, json, () => visible(`${json.file} ${json.bytes} bytes`))
    })
}
