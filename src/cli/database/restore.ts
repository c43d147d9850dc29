// restore: a copy takes the place of the database, frozen until somebody resumes it.

import { accessSync, constants, mkdtempDisposableSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { Command } from 'commander'
import { FROZEN_GUIDE, RESUME } from '../../core/frozen.ts'
import { periodOf } from '../../core/month.ts'
import { noFile, Problem } from '../../core/problem.ts'
import { counted, visible } from '../../core/text.ts'
import { formatInstant } from '../../core/time.ts'
import type { Restoring } from '../../store/copy-interface.ts'
import type { Database, Replaced } from '../../store/database.ts'
import type { Mended, SinceCopy, Stop, UnknownInvoice } from '../../store/replaced.ts'
import { auditEntry, commandLine, onDatabase } from '../command.ts'
import { type Cli, databaseOf } from '../context.ts'
import { confirmOnTerminal, note, print, warn } from '../terminal.ts'
import { copyWatched } from './copy.ts'

export function restoreCommand(cli: Cli): Command {
  return new Command('restore')
    .description('put a copy in place of the database, which is then frozen until `resume`')
    .argument('<file>', 'the copy')
    .option('--force', 'replace a database even if it has moved or is on a server')
    .action((copy: string, { force = false }: { force?: boolean }) => putBack(cli, copy, force))
}

/** The data found while restoring, and the changes made to the copy before it had its name. */
type Outcome = { sinceCopy: SinceCopy | null; mended: Mended }

/** Opens the copy before the database is named: root then switches to another user, who may not read it. */
async function putBack(cli: Cli, copy: string, force: boolean): Promise<void> {
  const open = (await (await databaseOf(copy, cli.machine)).asFile?.openCopy()) ?? null
  try {
    await putOpenBack(cli, { copy, open }, force)
  } finally {
    open?.close()
  }
}

async function putOpenBack(
  cli: Cli,
  { copy, open }: Pick<Restoring, 'copy' | 'open'>,
  force: boolean,
): Promise<void> {
  const database = await cli.database()
  const { shown } = database
  await confirmOnTerminal(
    cli,
    `Replace ${shown} with ${copy}? What happened since that copy is gone from the service, which stays frozen until you resume it.`,
  )
  const { mend } = await import('../../store/replaced.ts')
  const audit = auditEntry(cli, 'database.restore', shown, { from: copy })
  const erasures = await database.erasures()
  const unread = (await database.asFile?.countUnreadErasures()) ?? 0
  if (unread > 0)
    warn(
      cli,
      `${counted(unread, 'line')} of ${shown}.erasures cannot be read, and whoever was erased there may have the e-mail back: erase them again, as \`tranche audit\` of the old database or your own records have them`,
    )
  const outcome: Outcome = { sinceCopy: null, mended: { erasedAgain: 0, carried: [], kept: new Set() } }
  const restoring: Restoring = {
    copy,
    open,
    audit,
    async mend(store, sinceCopy, entry) {
      outcome.sinceCopy = sinceCopy
      outcome.mended = await mend(store, sinceCopy, { erasures, audit: entry })
    },
  }
  const old = database.asFile
    ? await database.asFile.restore(restoring, { now: cli.machine.clock(), force })
    : await readable(cli, restoring, (from) =>
        restoreToServer(cli, { from, to: database }, { restoring, force }),
      )
  showRestored(cli, database, old, outcome)
}

/** Runs `work` on the copy or, if this user lacks permission, on a temporary copy of it. */
async function readable<T>(
  cli: Cli,
  { copy, open }: Restoring,
  work: (from: Database) => Promise<T>,
): Promise<T> {
  if (open === null || isReadable(copy)) return work(await databaseOf(copy, cli.machine))
  using folder = mkdtempDisposableSync(join(tmpdir(), 'tranche-restore-'))
  const fetched = join(folder.path, basename(copy))
  open.fetchTo(fetched)
  return await work(await databaseOf(fetched, cli.machine))
}

function isReadable(copy: string): boolean {
  try {
    accessSync(copy, constants.R_OK)
    return true
  } catch {
    return false
  }
}

async function restoreToServer(
  cli: Cli,
  { from, to }: { from: Database; to: Database },
  { restoring, force }: { restoring: Restoring; force: boolean },
): Promise<Replaced> {
  if (from.asFile && (await from.isMissing())) throw noFile(resolve(restoring.copy))
  if (!force && !(await to.isMissing()))
    throw new Problem(
      'database_exists',
      `${to.shown} holds a database of tranche: --force puts the copy in its place and keeps it in a schema of another name. Close all connections first.`,
    )
  const options = { seal: null, replace: force, kind: 'backup', restore: restoring } as const
  const { replaced, playedIn } = await copyWatched(cli, { from, to }, options)
  return { database: replaced, log: null, playedIn, additions: [] }
}

/** --json has all of them. */
const SHOWN_MAX = 20

function showRestored(cli: Cli, database: Database, old: Replaced, { sinceCopy, mended }: Outcome): void {
  const { shown } = database
  const next = stepsFrom(cli, database, old)
  const json = {
    file: shown,
    replaced: old.database,
    replaced_log: old.log,
    played_in: old.playedIn,
    frozen: true,
    erased_again: mended.erasedAgain,
    since_copy: sinceCopy && {
      stops: sinceCopy.stops.map(({ kind, partnerSlug, environment, subject }) => ({
        stop: kind,
        partner_slug: partnerSlug,
        environment,
        subject,
      })),
      issued: sinceCopy.issued.map(({ number, partnerSlug, month }) => ({
        invoice_number: number,
        partner_slug: partnerSlug,
        month,
        kept: mended.kept.has(number),
      })),
      unread: sinceCopy.unread,
    },
    next,
  }
  if (old.additions.length > 0)
    note(cli, `Not made by tranche, and left as it is: ${old.additions.join(', ')}.`)
  for (const why of sinceCopy?.unread ?? []) warn(cli, `not read: ${why}`)
  const played = old.playedIn.map((name) => `${name} was merged into it`)
  const left = [
    old.database && `the old one is ${old.database}`,
    old.log && `the log that was beside it is ${old.log}`,
  ]
  const head = [`${shown} restored`, ...played, ...left.filter((part) => part !== null)].join('; ')
  print(cli, json, () =>
    [
      visible(head),
      ...(mended.erasedAgain > 0 ? [`${counted(mended.erasedAgain, 'user')} erased again`] : []),
      ...(sinceCopy ? issuedInWords(sinceCopy.issued, mended.kept) : []),
      ...titled('Stopped since the copy was made, and stopped again:', sinceCopy?.stops ?? [], stopInWords),
      `It is frozen: nothing fires and nothing is delivered, and confirmations are recorded. Next, in this order (\`${FROZEN_GUIDE.join(' ')}\`):`,
      ...next.map(({ command, why }, i) => `${i + 1}. ${visible(command)}\n   ${why}`),
    ].join('\n'),
  )
}

/** Invoices are with their readers: a copy that lacks them would assign their numbers again. */
function issuedInWords(issued: readonly UnknownInvoice[], held: ReadonlySet<string>): string[] {
  const words = (one: UnknownInvoice): string => `${one.number} ${one.partnerSlug} ${one.month}`
  const has = issued.filter(({ number }) => held.has(number))
  const lacks = issued.filter(({ number }) => !held.has(number))
  return [
    ...titled('Issued since the copy was made, and kept in it:', has, words),
    ...titled(
      'Issued since the copy was made, and NOT in it; find out why before you issue again:',
      lacks,
      words,
    ),
  ]
}

const stopInWords = ({ kind, partnerSlug, environment, subject }: Stop): string =>
  [kind, partnerSlug, environment, subject === partnerSlug ? null : subject].filter(Boolean).join(' ')

function titled<T>(title: string, all: readonly T[], words: (one: T) => string): string[] {
  if (all.length === 0) return []
  const more = all.length - SHOWN_MAX
  const lines = all.slice(0, SHOWN_MAX).map((one) => `  ${visible(words(one))}`)
  return [title, ...lines, ...(more > 0 ? [`  and ${more} more: --json has them`] : [])]
}

type NextStep = { command: string; why: string }

function stepsFrom(cli: Cli, database: Database, old: Replaced): NextStep[] {
  const step = (why: string, ...words: string[]) => ({
    command: commandLine(cli.self(), ['tranche', ...words]),
    why,
  })
  const month = formatInstant(cli.machine.clock()).slice(0, 7)
  return [
    ...(old.database === null ? [] : stepsWithOld(database, old.database, month)),
    step('reads the whole database once', 'check'),
    step(
      'for each partner: its own orders against the ledger; what the ledger lacks is booked with `trade record`',
      ...['billing', 'reconcile', '--against', 'ORDERS.csv', '--month', month, '--partner', 'SLUG'],
    ),
    step('says what would fire, and fires nothing', 'tick', '--dry-run'),
    step('ends the freeze', ...RESUME.slice(1)),
  ]
}

/** The data in the replaced database. On a server it is a schema, which no command of ours opens. */
function stepsWithOld({ asFile }: Database, old: string, month: string): NextStep[] {
  const [audit, bought] = [
    'what operators did since the copy, to be done again where it matters',
    'what was bought since the copy, for each partner a list for `billing reconcile --against`',
  ]
  const self = onDatabase('tranche', old)
  const exported = ['billing', 'export', '--month', month, '--partner', 'SLUG', '--report', 'trades']
  const units = (column: string) => `round(${column} / 100000000.0, 8) as ${column}`
  const { start, end } = periodOf(month)
  const orders = [
    `select partner_order_id, ${['usd_amount', 'btc_amount', 'partner_fee_usd'].map(units).join(', ')}`,
    `from ${old}.trades join ${old}.tenants using (tenant_id)`,
    `where partner_slug = 'SLUG' and environment = 'live' and usd_amount is not null`,
    `and recorded_at >= ${start} and recorded_at < ${end}`,
  ].join(' ')
  return asFile
    ? [
        { command: commandLine(self, ['tranche', 'audit']), why: audit },
        { command: commandLine(self, ['tranche', ...exported, '--output', 'ORDERS.csv']), why: bought },
      ]
    : [
        { command: `psql "$TRANCHE_DB" -c 'select * from ${old}.audit order by audit_id'`, why: audit },
        { command: `psql "$TRANCHE_DB" --csv -c "${orders}" > ORDERS.csv`, why: bought },
      ]
}
