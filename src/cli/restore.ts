// restore: a copy takes the place of the database.

import { resolve } from 'node:path'
import { Command } from 'commander'
import { counted } from '../core/counted.ts'
import { lostInWords } from '../core/lost-writes.ts'
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

type Options = { force?: boolean; resume?: boolean }

export function restoreCommand(cli: Cli): Command {
  return new Command('restore')
    .description('put a copy in place of the database; the old one is kept next to it')
    .argument('[file]', 'the copy')
    .option('--force', 'replace a database even if it is sealed or on a server')
    .option('--resume', 'let a database that stands still go on as it is')
    .action(async (copy: string | undefined, { force = false, resume = false }: Options) => {
      if ((copy === undefined) !== resume || (resume && force))
        throw new Problem('usage', 'Name a copy, or give --resume alone.')
      if (copy === undefined) return letGoOn(cli)
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
      const played = old.playedIn.map((name) => `${name} was played into it`)
      const left = [
        old.database && `the old one is ${old.database}`,
        old.log && `the log that was beside it is ${old.log}`,
      ]
      print(
        cli,
        { file: shown, replaced: old.database, replaced_log: old.log, played_in: old.playedIn },
        () => visible([`${shown} restored`, ...played, ...left.filter((part) => part !== null)].join('; ')),
      )
    })
}

async function letGoOn(cli: Cli): Promise<void> {
  await cli.withStore(async (store) => {
    const lost = await store.readLostWrites()
    if (lost !== null)
      await confirmOnTerminal(
        cli,
        `Let ${(await cli.database()).shown} go on as it is? ${lostInWords(lost)}. What was bought under them may be bought again unless it was recorded.`,
      )
    const { shown } = await cli.database()
    const { writes, tenants } = await store.resume(auditEntry(cli, 'database.resume', shown))
    print(cli, { file: shown, writes, tenants }, () =>
      visible(`${shown} goes on, without ${counted(writes, 'write')}`),
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
  const { replaced, playedIn } = await copyWatched(cli, { from, to: database }, options)
  return { database: replaced, log: null, playedIn }
}
