// restore: a copy takes the place of the database, which then stands still until somebody lets it go on.

import { resolve } from 'node:path'
import { Command } from 'commander'
import { type Btc, formatBtc, formatUsd, type Usd } from '../../core/money.ts'
import { noFile, Problem } from '../../core/problem.ts'
import { lostInWords, RESUME, restoredInWords } from '../../core/standstill.ts'
import { counted, visible } from '../../core/text.ts'
import { formatInstant } from '../../core/time.ts'
import type { Restoring } from '../../store/copy-interface.ts'
import type { Database, Replaced } from '../../store/database.ts'
import type {
  Mended,
  OtherTerms,
  SinceCopy,
  Stop,
  UnknownAction,
  UnknownInvoice,
  UnknownTrade,
} from '../../store/replaced.ts'
import { auditEntry, commandLine } from '../command.ts'
import { type Cli, databaseOf } from '../context.ts'
import { confirmOnTerminal, print, warn } from '../terminal.ts'
import { copyWatched } from './copy.ts'

type Options = { force?: boolean; resume?: boolean; carryStops?: boolean }

export function restoreCommand(cli: Cli): Command {
  return new Command('restore')
    .description('put a copy in place of the database, which then stands still until --resume')
    .argument('[file]', 'the copy')
    .option('--carry-stops', 'stop in the copy what was stopped since in the database that it replaces')
    .option('--force', 'replace a database even if it is sealed or on a server')
    .option('--resume', 'let a database that stands still go on as it is')
    .action(async (copy: string | undefined, options: Options) => {
      const { force = false, resume = false, carryStops = false } = options
      if ((copy === undefined) !== resume || (resume && (force || carryStops)))
        throw new Problem('usage', 'Name a copy, or give --resume alone.')
      if (copy === undefined) return letGoOn(cli)
      await putBack(cli, copy, { force, carryStops })
    })
}

/** What became of the copy before it had its name. */
type Outcome = { sinceCopy: SinceCopy | null; mended: Mended }

async function putBack(
  cli: Cli,
  copy: string,
  { force, carryStops }: { force: boolean; carryStops: boolean },
): Promise<void> {
  const database = await cli.database()
  const { shown } = database
  await confirmOnTerminal(
    cli,
    `Replace ${shown} with ${copy}? What happened since that copy is gone from the service, which stands still until you let it go on.`,
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
  const outcome: Outcome = {
    sinceCopy: null,
    mended: { erasedAgain: 0, carried: [], kept: new Set() },
  }
  const restoring: Restoring = {
    copy,
    audit,
    async mend(store, sinceCopy, entry) {
      outcome.sinceCopy = sinceCopy
      outcome.mended = await mend(store, sinceCopy, { erasures, carriesStops: carryStops, audit: entry })
    },
  }
  const old = database.asFile
    ? await database.asFile.restore(restoring, { now: cli.machine.clock(), force })
    : await restoreToServer(cli, database, { restoring, force })
  showRestored(cli, { shown, copy, carryStops }, old, outcome)
}

async function restoreToServer(
  cli: Cli,
  database: Database,
  { restoring, force }: { restoring: Restoring; force: boolean },
): Promise<Replaced> {
  const from = await databaseOf(restoring.copy, cli.machine)
  if (from.asFile && (await from.isMissing())) throw noFile(resolve(restoring.copy))
  if (!force && !(await database.isMissing()))
    throw new Problem(
      'database_exists',
      `${database.shown} holds a database of tranche: --force puts the copy in its place and keeps it in a schema of another name. Close all connections first.`,
    )
  const options = { seal: false, replace: force, kind: 'backup', restore: restoring } as const
  const { replaced, playedIn } = await copyWatched(cli, { from, to: database }, options)
  return { database: replaced, log: null, playedIn }
}

// What a restore has done, what the replaced database tells, and what is to be done next.

type Asked = { shown: string; copy: string; carryStops: boolean }

/** More of them are in --json. */
const SHOWN_MAX = 20

function showRestored(cli: Cli, asked: Asked, old: Replaced, { sinceCopy, mended }: Outcome): void {
  const { shown, carryStops } = asked
  const next = stepsFrom(cli, asked, sinceCopy)
  const json = {
    file: shown,
    replaced: old.database,
    replaced_log: old.log,
    played_in: old.playedIn,
    stands_still: true,
    erased_again: mended.erasedAgain,
    since_copy: sinceCopy && {
      stops: sinceCopy.stops.map((stop) => stopJson(stop, carryStops)),
      lacking: sinceCopy.counts,
      trades: sinceCopy.trades.map(tradeJson),
      late_fills: sinceCopy.lateFills.map(tradeJson),
      changed_plans: sinceCopy.terms.map(termsJson),
      done: sinceCopy.actions.map(({ at, action, subject }) => ({ at: formatInstant(at), action, subject })),
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
  for (const why of sinceCopy?.unread ?? []) warn(cli, `not read: ${why}`)
  const played = old.playedIn.map((name) => `${name} was played into it`)
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
      ...(sinceCopy ? sinceCopyInWords(sinceCopy, carryStops) : []),
      'It stands still: nothing fires and nothing is delivered, and confirmations are taken. Next, in this order:',
      ...next.map(({ command, why }, i) => `${i + 1}. ${visible(command)}\n   ${why}`),
    ].join('\n'),
  )
}

/** Invoices are with their readers: a copy that lacks them would give their numbers again. */
function issuedInWords(issued: readonly UnknownInvoice[], kept: ReadonlySet<string>): string[] {
  const [has, lacks] = [true, false].map((is) => issued.filter(({ number }) => kept.has(number) === is))
  const lines = (title: string, of: readonly UnknownInvoice[] = []) =>
    of.length === 0 ? [] : [title, ...listed(of, invoiceInWords)]
  return [
    ...lines('Issued since the copy, and kept in it:', has),
    ...lines('Issued since the copy, and NOT in it: do not issue before you know why:', lacks),
  ]
}

const invoiceInWords = ({ number, partnerSlug, month }: UnknownInvoice): string =>
  `${number} ${partnerSlug} ${month}`

function sinceCopyInWords(
  { stops, counts, trades, lateFills, terms, actions }: SinceCopy,
  carryStops: boolean,
): string[] {
  const lines: string[] = []
  for (const [is, fate] of [
    [true, 'carried over'],
    [false, 'NOT carried over (--carry-stops does)'],
  ] as const) {
    const of = stops.filter((stop) => isCarried(stop, carryStops) === is)
    if (of.length > 0) lines.push(`Stopped since the copy, and ${fate}:`, ...listed(of, stopInWords))
  }
  const { executions, trades: bought, executions_ended: ended, users, plans, keys } = counts
  const parts = [
    executions > 0 && counted(executions, 'execution'),
    bought > 0 && counted(bought, 'purchase'),
    counts.adjustments > 0 && counted(counts.adjustments, 'adjustment'),
    users > 0 && counted(users, 'user'),
    plans > 0 && counted(plans, 'plan'),
    keys > 0 && counted(keys, 'key'),
    counts.webhooks > 0 && counted(counts.webhooks, 'webhook registration'),
  ].filter((part) => part !== false)
  if (parts.length > 0) lines.push(`The copy lacks ${parts.join(', ')}.`)
  if (ended > 0) lines.push(`${counted(ended, 'execution')} open in the copy had ended.`)
  if (trades.length > 0) lines.push('Bought since the copy:', ...listed(trades, tradeInWords))
  if (lateFills.length > 0)
    lines.push(
      'Reported since the copy, and kept as late fills there alone:',
      ...listed(lateFills, tradeInWords),
    )
  if (terms.length > 0)
    lines.push(
      'Plans changed since the copy, which would fire on the old terms:',
      ...listed(terms, termsInWords),
    )
  if (actions.length > 0)
    lines.push('Done by operators since the copy, and not in it:', ...listed(actions, actionInWords))
  return lines
}

function listed<T>(all: readonly T[], words: (one: T) => string): string[] {
  const more = all.length - SHOWN_MAX
  const lines = all.slice(0, SHOWN_MAX).map((one) => `  ${visible(words(one))}`)
  return more > 0 ? [...lines, `  and ${more} more: --json has them`] : lines
}

/** An erasure is done again whatever else. */
const isCarried = ({ kind }: Stop, carryStops: boolean): boolean => carryStops || kind === 'user_erased'

const stopJson = (stop: Stop, carryStops: boolean) => ({
  stop: stop.kind,
  partner_slug: stop.partnerSlug,
  environment: stop.environment,
  subject: stop.subject,
  carried: isCarried(stop, carryStops),
})

const stopInWords = ({ kind, partnerSlug, environment, subject }: Stop): string =>
  [kind, partnerSlug, environment, subject === partnerSlug ? null : subject].filter(Boolean).join(' ')

const tradeJson = (trade: UnknownTrade) => ({
  partner_slug: trade.partnerSlug,
  environment: trade.environment,
  partner_plan_id: trade.partnerPlanId,
  execution_id: trade.executionId,
  partner_order_id: trade.partnerOrderId,
  idempotency_key: trade.idempotencyKey,
  usd_amount: formatUsd(trade.usd as Usd),
  btc_amount: formatBtc(trade.btc as Btc),
  recorded_at: formatInstant(trade.recordedAt),
})

const tradeInWords = (trade: UnknownTrade): string => {
  const { partner_slug, environment, partner_plan_id, partner_order_id, ...said } = tradeJson(trade)
  const { usd_amount, btc_amount, idempotency_key: key } = said
  const plan = partner_plan_id === null ? 'of an unknown plan,' : `plan ${partner_plan_id}`
  return `${partner_slug} ${environment} ${plan} order ${partner_order_id}: ${usd_amount} USD, ${btc_amount} BTC${key === null ? '' : `, key ${key}`}`
}

const termsJson = ({ partnerSlug, environment, partnerPlanId, inCopy, since }: OtherTerms) => ({
  partner_slug: partnerSlug,
  environment,
  partner_plan_id: partnerPlanId,
  amount_usd: formatUsd(since.amount as Usd),
  frequency: since.frequency,
  copy_amount_usd: formatUsd(inCopy.amount as Usd),
  copy_frequency: inCopy.frequency,
})

const termsInWords = (terms: OtherTerms): string => {
  const plan = termsJson(terms)
  return `${plan.partner_slug} ${plan.environment} plan ${plan.partner_plan_id}: ${plan.amount_usd} USD ${plan.frequency}, in the copy ${plan.copy_amount_usd} USD ${plan.copy_frequency}`
}

const actionInWords = ({ at, action, subject }: UnknownAction): string =>
  `${formatInstant(at)} ${action} ${subject}`

type NextStep = { command: string; why: string }

/** In the order in which they are to be done. */
function stepsFrom(cli: Cli, { copy, carryStops }: Asked, sinceCopy: SinceCopy | null): NextStep[] {
  const step = (why: string, ...words: string[]) => ({
    command: commandLine(cli.self(), ['tranche', ...words]),
    why,
  })
  const month = formatInstant(cli.machine.clock()).slice(0, 7)
  const isLeft = sinceCopy?.stops.some((stop) => !isCarried(stop, carryStops)) ?? false
  return [
    ...(isLeft
      ? [step('stops again what was stopped since the copy', 'restore', copy, '--carry-stops')]
      : []),
    step('reads the whole database once', 'check'),
    step(
      'for each partner: its own orders against the ledger; what the ledger lacks is booked with `trade record`',
      ...['billing', 'reconcile', '--against', 'ORDERS.csv', '--month', month, '--partner', 'SLUG'],
    ),
    ...partnersToHold(sinceCopy, carryStops).map((slug) =>
      step(
        'keeps its plans from firing on the old terms: when it goes on, let it send them again, then `partner release`',
        ...['partner', 'hold', slug],
      ),
    ),
    step('says what would fire, and fires nothing', 'tick', '--dry-run'),
    step('lets it go on', ...RESUME.slice(1)),
  ]
}

/** Those with plans of other terms, without those that are held because their hold was carried over. */
function partnersToHold(sinceCopy: SinceCopy | null, carryStops: boolean): string[] {
  const { terms, stops } = sinceCopy ?? { terms: [], stops: [] }
  const live = terms.filter(({ environment }) => environment === 'live')
  const held = carryStops ? stops.filter(({ kind }) => kind === 'partner_held') : []
  const ofHeld = new Set(held.map(({ partnerSlug }) => partnerSlug))
  return [...new Set(live.map(({ partnerSlug }) => partnerSlug))].filter((slug) => !ofHeld.has(slug))
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
    const due = `${counted(plans, 'plan')} will be due at the next tick, and ${counted(orders, 'instruction')} will be delivered at the next polls`
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
