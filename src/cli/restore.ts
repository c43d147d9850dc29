// restore: a copy takes the place of the database.

import { resolve } from 'node:path'
import { Command } from 'commander'
import { Problem } from '../core/problem.ts'
import { visible } from '../core/visible-text.ts'
import type { AuditEntry } from '../store/audit.ts'
import type { Database, Replaced } from '../store/database.ts'
import type { Cli } from './context.ts'
import { databaseOf } from './database.ts'
import { auditEntry } from './shared/audit-entry.ts'
import { copyWatched } from './shared/copy-watched.ts'
import { confirmOnTerminal } from './terminal/ask.ts'
import { print } from './terminal/print.ts'

export function restoreCommand(cli: Cli): Command {
  return new Command('restore')
    .description('put a copy in place of the database; the old one is kept next to it')
    .argument('<file>', 'the copy')
    .option('--force', 'replace a database even if it is sealed or on a server')
    .action(async (copy: string, { force = false }: { force?: boolean }) => {
      const database = await cli.database()
      const { shown } = database
      await confirmOnTerminal(
        cli,
        `Replace ${shown} with ${copy}? What happened since that copy is gone from the service.`,
      )
      const audit = auditEntry(cli, 'database.restore', shown, { from: copy })
      const old = database.asFile
        ? await database.asFile.restore(copy, { now: cli.machine.clock(), audit, force })
        : await restoreToServer(cli, database, { copy, force, audit })
      const left = [
        old.database && `the old one is ${old.database}`,
        old.log && `the log that was beside it is ${old.log}`,
      ]
      print(cli, { file: shown, replaced: old.database, replaced_log: old.log }, () =>
        visible([`${shown} restored`, ...left.filter((part) => part !== null)].join('; ')),
      )
    })
}

async function restoreToServer(
  cli: Cli,
  database: Database,
  { copy, force, audit }: { copy: string; force: boolean; audit: AuditEntry },
): Promise<Replaced> {
  const from = await databaseOf(copy, cli.machine)
  if (from.asFile && (await from.isMissing()))
    throw new Problem('file_not_found', `There is no file ${resolve(copy)}.`)
  if (!force && !(await database.isMissing()))
    throw new Problem(
      'database_exists',
      `${database.shown} holds a database of tranche: --force puts the copy in its place and keeps it in a schema of another name. Close all connections first.`,
    )
  const options = { seal: false, replace: force, kind: 'backup', audit } as const
  const { replaced } = await copyWatched(cli, { from, to: database }, options)
  return { database: replaced, log: null }
}
