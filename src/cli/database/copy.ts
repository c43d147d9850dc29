// copy: copies a whole database to another file or server.

import { Command } from 'commander'
import type { Copied, CopyOptions } from '../../copy.ts'
import { frozenInWords, frozenJson } from '../../core/frozen.ts'
import { usage } from '../../core/problem.ts'
import { counted, visible } from '../../core/text.ts'
import { formatInstant } from '../../core/time.ts'
import { holdsSecret } from '../../store/address.ts'
import type { Database } from '../../store/database.ts'
import { auditEntry } from '../command.ts'
import { type Cli, databaseOf } from '../context.ts'
import { seenByAll } from '../options.ts'
import { confirmForGood, createProgress, print, warn } from '../terminal.ts'

type Options = { from?: string; to?: string; seal?: boolean; unseal?: boolean; yes?: boolean }

export function copyCommand(cli: Cli): Command {
  return new Command('copy')
    .description('copy the database to another file or server, and verify the copy')
    .option(
      '--from <file>',
      'the database to copy, a file or postgres://USER@HOST/NAME; default: the database of --db',
    )
    .option(
      '--to <file>',
      'where to, a file or an address that holds nothing of tranche yet; default: the database of --db',
    )
    .option('--seal', 'freeze the source as moved: it refuses every write from then on')
    .option('--unseal', 'take back the database of --db after it moved; copies nothing')
    .option('--yes', 'do not ask before --unseal; needed where there is no terminal')
    .action(async ({ seal = false, unseal = false, yes = false, ...named }: Options) => {
      if (yes && !unseal) throw usage('--yes belongs to --unseal: nothing else is asked.')
      if (unseal) await takeBack(cli, { ...named, seal, yes })
      else await move(cli, await endsOf(cli, named), seal)
    })
}

type Ends = { from: Database; to: Database }

async function endsOf(cli: Cli, { from, to }: Pick<Options, 'from' | 'to'>): Promise<Ends> {
  if (from === undefined && to === undefined)
    throw usage('Name the source with --from or the target with --to; --db gives the other one.')
  for (const [flag, address] of Object.entries({ '--from': from, '--to': to }))
    if (address !== undefined && holdsSecret(address)) warn(cli, seenByAll(flag))
  const database = await cli.database()
  const at = (address?: string) => (address === undefined ? database : databaseOf(address, cli.machine))
  const ends = { from: await at(from), to: await at(to) }
  if (ends.from.shownInFull === ends.to.shownInFull)
    throw usage(`${ends.from.shown} cannot be copied into itself: name two databases.`)
  return ends
}

async function move(cli: Cli, { from, to }: Ends, seal: boolean): Promise<void> {
  const audit = auditEntry(cli, 'database.freeze', from.shown, { kind: 'moved', moved_to: to.shown })
  const options = { seal: seal ? audit : null, replace: false, kind: 'move' } as const
  const copied = await copyWatched(cli, { from, to }, options)
  const frozen = await to.frozen()
  const rows = copied.tables.reduce((sum, table) => sum + table.rows, 0)
  const json = {
    from: from.shown,
    to: to.shown,
    rows,
    closed_months: copied.closedMonths,
    bytes: copied.bytes,
    sealed_at: copied.movedAt && formatInstant(copied.movedAt),
    frozen: frozen && frozenJson(frozen),
    tables: copied.tables,
    played_in: copied.playedIn,
  }
  const beside = copied.playedIn.map((name) => `, with ${name} merged`).join('')
  const source = copied.movedAt
    ? `; ${from.shown} has moved and takes no more writes`
    : `; ${from.shown} still takes writes, and they are not in the copy`
  const state = frozen ? `; the copy is ${frozenInWords(frozen)}` : ''
  const proof = `${counted(rows, 'row')} in ${counted(copied.tables.length, 'table')}, ${counted(copied.closedMonths, 'closed month')}, verified${beside}`
  print(cli, json, () => visible(`${from.shown} copied to ${to.shown}: ${proof}${source}${state}`))
}

/** Two databases that both take writes would have two versions of the truth about the same money. */
async function takeBack(cli: Cli, { from, to, seal, yes = false }: Options): Promise<void> {
  if (from !== undefined || to !== undefined || seal)
    throw usage('--unseal takes the database of --db, and none of --from, --to and --seal.')
  const database = await cli.database()
  const found = await database.frozen()
  if (found?.kind === 'moved')
    await confirmForGood(cli, {
      yes,
      what: 'If both databases are used, plans are bought twice',
      question: `Take ${database.shown} back? It moved to ${found.movedTo} on ${formatInstant(found.at)}: what was written there since is not in it, and if both are used, plans are bought twice.`,
    })
  const broken = await database.unseal({
    now: cli.machine.clock(),
    audit: ({ at, movedTo }) =>
      auditEntry(cli, 'database.unseal', database.shown, { moved_to: movedTo, sealed_at: formatInstant(at) }),
  })
  const json = { database: database.shown, moved_to: broken.movedTo, sealed_at: formatInstant(broken.at) }
  print(cli, json, () =>
    visible(
      `${database.shown} takes writes again, and is frozen until \`tranche resume\`: first make sure that nothing uses ${broken.movedTo}`,
    ),
  )
}

// A copy that a person watches: with a bar on a terminal, and with errors that name the side they come from.

export async function copyWatched(
  cli: Cli,
  { from, to }: Ends,
  options: Pick<CopyOptions, 'seal' | 'replace' | 'kind' | 'restore'>,
): Promise<Copied> {
  const { copyDatabase } = await import('../../copy.ts')
  let doing = ''
  const progress = createProgress(cli.streams, () => doing)
  try {
    return await copyDatabase(from, to, {
      ...options,
      now: cli.machine.clock(),
      show(share, what) {
        doing = what
        progress.show(share)
      },
    })
  } catch (error) {
    throw to.explained(from.explained(error))
  } finally {
    progress.clear()
  }
}
