// backup and restore: a copy of the database, made while it is in use, and put in its place.

import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { Command } from 'commander'
import { lostInWords } from '../../core/clock.ts'
import { Problem } from '../../core/problem.ts'
import { counted, noFile, visible } from '../../core/text.ts'
import type { Database, Replaced } from '../../store/database.ts'
import type { AuditEntry } from '../../store/store.ts'
import { nameTaken } from '../../whole-file.ts'
import { auditEntry } from '../command.ts'
import { type Cli, databaseOf } from '../context.ts'
import { confirmOnTerminal, print } from '../terminal.ts'
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

// restore: a copy takes the place of the database.

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
  if (from.asFile && (await from.isMissing())) throw noFile(resolve(copy))
  if (!force && !(await database.isMissing()))
    throw new Problem(
      'database_exists',
      `${database.shown} holds a database of tranche: --force puts the copy in its place and keeps it in a schema of another name. Close all connections first.`,
    )
  const options = { seal: false, replace: force, kind: 'backup', audit } as const
  const { replaced, playedIn } = await copyWatched(cli, { from, to: database }, options)
  return { database: replaced, log: null, playedIn }
}
