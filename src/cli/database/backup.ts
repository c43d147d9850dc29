// backup: a copy of the database, made while it is in use.

import { existsSync } from 'node:fs'
import { Command } from 'commander'
import { visible } from '../../core/text.ts'
import type { Database } from '../../store/database.ts'
import { nameTaken } from '../../whole-file.ts'
import { type Cli, databaseOf } from '../context.ts'
import { print } from '../terminal.ts'
import { copyWatched } from './copy.ts'

export function backupCommand(cli: Cli): Command {
  return new Command('backup')
    .description(
      'copy the database to a file while it is in use; the copy is checked before it gets its name',
    )
    .argument('<file>', 'the file to write')
    .option('--force', 'replace the file if it exists')
    .action(async (copy: string, { force = false }: { force?: boolean }) => {
      const database = await cli.database()
      const { bytes } = database.asFile
        ? await database.asFile.backUp(copy, { replace: force })
        : await backUpServer(cli, database, { copy, replace: force })
      const json = { file: copy, bytes }
      print(cli, json, () => visible(`${json.file} ${json.bytes} bytes`))
    })
}

async function backUpServer(
  cli: Cli,
  database: Database,
  { copy, replace }: { copy: string; replace: boolean },
): Promise<{ bytes: number | null }> {
  if (!replace && existsSync(copy)) throw nameTaken(copy)
  const to = await databaseOf(copy, cli.machine)
  return copyWatched(cli, { from: database, to }, { seal: false, replace, kind: 'backup' })
}
