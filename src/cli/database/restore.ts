// restore: a copy takes the place of the database, which then stands still until somebody lets it go on.

import { resolve } from 'node:path'
import { Command } from 'commander'
import { lostInWords, RESUME, restoredInWords } from '../../core/clock.ts'
import { Problem } from '../../core/problem.ts'
import { counted, noFile, visible } from '../../core/text.ts'
import { formatInstant } from '../../core/time.ts'
import type { Restoring } from '../../store/copying.ts'
import type { Database, Replaced } from '../../store/database.ts'
import { auditEntry, commandLine } from '../command.ts'
import { type Cli, databaseOf } from '../context.ts'
import { confirmOnTerminal, print } from '../terminal.ts'
import { copyWatched } from './copy.ts'

type Options = { force?: boolean; resume?: boolean }

export function restoreCommand(cli: Cli): Command {
  return new Command('restore')
    .description('put a copy in place of the database, which then stands still until --resume')
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
        `Replace ${shown} with ${copy}? What happened since that copy is gone from the service, which stands still until you let it go on.`,
      )
      const audit = auditEntry(cli, 'database.restore', shown, { from: copy })
      const old = database.asFile
        ? await database.asFile.restore(copy, { now: cli.machine.clock(), audit, force })
        : await restoreToServer(cli, database, { restore: { copy, audit }, force })
      show(cli, shown, old)
    })
}

async function restoreToServer(
  cli: Cli,
  database: Database,
  { restore, force }: { restore: Restoring; force: boolean },
): Promise<Replaced> {
  const from = await databaseOf(restore.copy, cli.machine)
  if (from.asFile && (await from.isMissing())) throw noFile(resolve(restore.copy))
  if (!force && !(await database.isMissing()))
    throw new Problem(
      'database_exists',
      `${database.shown} holds a database of tranche: --force puts the copy in its place and keeps it in a schema of another name. Close all connections first.`,
    )
  const options = { seal: false, replace: force, kind: 'backup', restore } as const
  const { replaced, playedIn } = await copyWatched(cli, { from, to: database }, options)
  return { database: replaced, log: null, playedIn }
}

// What a restore has done, and what is to be done next.

function show(cli: Cli, shown: string, old: Replaced): void {
  const played = old.playedIn.map((name) => `${name} was played into it`)
  const left = [
    old.database && `the old one is ${old.database}`,
    old.log && `the log that was beside it is ${old.log}`,
  ]
  const next = stepsFrom(cli)
  const json = {
    file: shown,
    replaced: old.database,
    replaced_log: old.log,
    played_in: old.playedIn,
    stands_still: true,
    next: next.map(({ command, why }) => ({ command, why })),
  }
  const head = [`${shown} restored`, ...played, ...left.filter((part) => part !== null)].join('; ')
  print(cli, json, () =>
    [
      visible(head),
      'It stands still: nothing fires and nothing is handed out, and confirmations are taken. Next, in this order:',
      ...next.map(({ command, why }, i) => `${i + 1}. ${visible(command)}\n   ${why}`),
    ].join('\n'),
  )
}

type NextStep = { command: string; why: string }

/** In the order in which they are to be done. */
function stepsFrom(cli: Cli): NextStep[] {
  const step = (why: string, ...words: string[]) => ({
    command: commandLine(cli.self(), ['tranche', ...words]),
    why,
  })
  const month = formatInstant(cli.machine.clock()).slice(0, 7)
  return [
    step('reads the whole database once', 'check'),
    step(
      'for each partner: its own orders against the ledger; what the ledger lacks is booked with `trade record`',
      ...['billing', 'reconcile', '--against', 'ORDERS.csv', '--month', month, '--partner', 'SLUG'],
    ),
    step('says what would fire, and fires nothing', 'tick', '--dry-run'),
    step('lets it go on', ...RESUME.slice(1)),
  ]
}

// --resume: lets a database go on that stands still.

async function letGoOn(cli: Cli): Promise<void> {
  const { countDuePlans } = await import('../../engine/pass.ts')
  await cli.withStore(async (store) => {
    const { shown } = await cli.database()
    const [restored, lost] = [await store.readRestored(), await store.readLostWrites()]
    const standing = restored !== null || lost !== null
    const plans = standing ? await countDuePlans(store) : 0
    const { now } = await store.readClock()
    const backlog = standing ? await store.readBacklog(now) : null
    const orders = backlog ? backlog.live.due + backlog.test.due : 0
    const due = `${counted(plans, 'plan')} will be due at the next tick, and ${counted(orders, 'instruction')} will be handed out at the next polls`
    if (standing) {
      const why = [
        restored && `It was ${restoredInWords(restored)}.`,
        lost &&
          `${lostInWords(lost)}. What was bought under them may be bought again unless it was recorded.`,
      ]
      await confirmOnTerminal(
        cli,
        [`Let ${shown} go on as it is?`, ...why, `${due}.`].filter(Boolean).join(' '),
      )
    }
    const ended = await store.resume(auditEntry(cli, 'database.resume', shown))
    const json = {
      file: shown,
      restored_at: ended.restored && formatInstant(ended.restored.at),
      copy: ended.restored?.copy ?? null,
      writes: ended.lost?.writes ?? 0,
      tenants: ended.lost?.tenants ?? '',
      plans_due: plans,
      executions_due: orders,
    }
    const without = ended.lost ? `, without ${counted(ended.lost.writes, 'write')}` : ''
    print(cli, json, () =>
      ended.restored || ended.lost
        ? visible(`${shown} goes on${without}; ${due}`)
        : visible(`${shown} does not stand still; nothing was changed`),
    )
  })
}
