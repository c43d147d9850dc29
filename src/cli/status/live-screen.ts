// The live screen of status: what needs a look first, then the numbers, then what happened last.

import { UNSPENT_DAYS, WAL_LARGE_BYTES } from '../../core/alarm-thresholds.ts'
import { spellBytes } from '../../core/bytes.ts'
import { counted, grouped } from '../../core/counted.ts'
import { spellBriefSpan, spellSpan } from '../../core/duration-words.ts'
import type { Finding } from '../../core/findings.ts'
import { formatInstant, type Instant, spellInstant } from '../../core/instant.ts'
import { formatPrice, formatUsd, type Usd } from '../../core/money.ts'
import { latenessInWords, schedulerLateness } from '../../core/scheduler-lateness.ts'
import { tenantName } from '../../core/tenant-words.ts'
import { cut } from '../../core/text-lengths.ts'
import { visibleCell } from '../../core/visible-text.ts'
import type { PartnerSeen, Vitals } from '../../core/vitals.ts'
import type { Recent } from '../../store/status.ts'
import { commandLine } from '../shared/findings.ts'
import type { Paint, Style } from '../terminal/paint.ts'
import { clipped, clippedLeft } from '../terminal/text-width.ts'
import { findingsIn, type Health } from './printed-status.ts'
import type { Screen } from './watch-loop.ts'

export type Seen = Health & {
  db: string
  self: string
  everyMs: number
  recent: Recent
  walBytes: number | null
}

/** Passes in the bar chart; the screen holds as many. */
export const PASSES_SHOWN = 60
/** The most executions a tall screen lists. */
export const EXECUTIONS_SHOWN = 40
const BARS = '▁▂▃▄▅▆▇█'
const WIDTH_MAX = 100
/** Below this the terminal cuts the lines. */
const WIDTH_MIN = 40

const NAME_WIDTH = 11
const VALUE_WIDTH = 16

/** `self` is how a command line for this database begins. */
type Frame = { width: number; paint: Paint; self: string }
type Mark = 'good' | 'look' | 'none'
const MARKS: Record<Mark, { glyph: string; style: Style }> = {
  good: { glyph: '●', style: 'green' },
  look: { glyph: '▲', style: 'yellow' },
  none: { glyph: ' ', style: 'dim' },
}

/** The lines of the screen, none longer than it is wide. */
export function drawScreen(seen: Seen, { columns, rows, paint, trouble }: Screen): string[] {
  // The last column stays empty: a terminal that clears the rest of a full line takes its last character.
  const width = Math.max(WIDTH_MIN, Math.min(columns - 1, WIDTH_MAX))
  const frame = { width, paint, self: seen.self }
  const rule = paint('dim', '─'.repeat(width))
  const findings = findingsIn(seen)
  const state = [...lights(seen, findings, frame), '', ...numbers(seen, frame), '']
  const found = findings.length > 0 ? [...findingLines(findings, rows - state.length - 4, frame), ''] : []
  const top = [title(seen, width, paint), rule, ...state, ...found]
  const chart = passBars(seen.recent, width, paint)
  const footer = paint('dim', `q quits; looks every ${seen.everyMs / 1000} s`)
  const last = trouble === null ? footer : paint('red', clipped(trouble, width))
  const room = Math.max(0, rows - top.length - chart.length - 2)
  const list = latest(seen.recent, room, frame)
  const filler = Array<string>(Math.max(0, room - list.length)).fill('')
  return [...[...top, ...chart, ...list, ...filler, ''].slice(0, rows - 1), last]
}

function title({ at, db }: Seen, width: number, paint: Paint): string {
  const when = `${spellInstant(at)} UTC`
  const room = Math.max(0, width - 'tranche  '.length - when.length - 2)
  const name = clippedLeft(db, room)
  return `${paint('bold', 'tranche')}  ${name.padEnd(room)}  ${when}`
}

/** What is fine and what needs a look, by colour and by shape. */
function lights(seen: Seen, findings: readonly Finding[], frame: Frame): string[] {
  const { at, vitals, backlog, recent, walBytes } = seen
  const { scheduler, partners, feed, disk } = vitals
  const lastAt = scheduler.lastFinishedAt
  const { usualGapMs } = schedulerLateness(scheduler, at)
  const found = (...kinds: Finding['kind'][]) => findings.some(({ kind }) => kinds.includes(kind))
  const mark = (...kinds: Finding['kind'][]): Mark => (found(...kinds) ? 'look' : 'good')
  const { due, oldestDueAt } = backlog.live
  return [
    light(found('ticks_stopped') ? 'look' : lastAt === null ? 'none' : 'good', frame, [
      'last tick',
      lastAt === null ? 'never' : `${since(at, lastAt)} ago`,
      found('ticks_stopped') ? latenessInWords(scheduler, at, usualGapMs) : tickWords(recent, at),
    ]),
    light(found('feed_down', 'price_old') ? 'look' : feed ? 'good' : 'none', frame, [
      'price',
      ...priceWords(seen),
    ]),
    light(mark('executions_stuck', 'partner_silent'), frame, [
      'due now',
      grouped(due),
      oldestDueAt === null ? 'nothing waits for a poll' : `the oldest for ${since(at, oldestDueAt)}`,
    ]),
    light(mark('partner_failing'), frame, ['orders', ...orderWords(partners)]),
    light(mark('webhook_paused', 'webhook_failing'), frame, ['webhooks', ...webhookWords(partners)]),
    light(mark('windows_unspent'), frame, ['unspent', ...unspentWords(vitals.unspent)]),
    ...(walBytes === null
      ? []
      : [
          light(walBytes > WAL_LARGE_BYTES ? 'look' : 'good', frame, [
            'log',
            spellBytes(walBytes),
            'write-ahead log, not yet folded in',
          ]),
        ]),
    ...(disk
      ? [light(mark('disk_low'), frame, ['disk', `${spellBytes(disk.freeBytes)} free`, `in ${disk.folder}`])]
      : []),
  ]
}

function priceWords({ at, vitals: { price, feed } }: Seen): [string, string] {
  const state = feed === null ? '' : `; feed ${feed.name} ${feed.down ? 'is down' : 'answers'}`
  return [
    price ? `${grouped(formatPrice(price.price))} USD` : 'none',
    (price ? `${since(at, price.at)} old, from ${price.source}` : 'the schedule is a clock') + state,
  ]
}

function orderWords(partners: readonly PartnerSeen[]): [string, string] {
  const sum = (of: 'filled' | 'failed') => partners.reduce((total, { orders }) => total + orders[of], 0)
  return [`${grouped(sum('failed'))} failed`, `${grouped(sum('filled'))} filled in 24 hours`]
}

function webhookWords(partners: readonly PartnerSeen[]): [string, string] {
  const paused = partners.filter(({ webhook }) => webhook?.paused)
  const names = paused.map(({ tenant }) => tenantName(tenant)).join(', ')
  return [paused.length > 0 ? `${paused.length} paused` : 'none paused', names]
}

function unspentWords(unspent: Vitals['unspent']): [string, string] {
  const windows = unspent.reduce((sum, one) => sum + one.windows, 0)
  const released = unspent.reduce((sum, one) => sum + one.released, 0n) as Usd
  const left = windows > 0 ? `left by ${counted(windows, 'window')} ` : ''
  return [`${grouped(formatUsd(released))} USD`, `${left}in ${UNSPENT_DAYS} days`]
}

function numbers({ stock, backlog, vitals }: Seen, frame: Frame): string[] {
  const { live, test } = stock.plans
  const disabled = vitals.partners.filter(({ status }) => status === 'disabled').length
  const inTest = test.active > 0 ? `; ${grouped(test.active)} in test` : ''
  return [
    light('none', frame, [
      'plans',
      `${grouped(live.active)} active`,
      `${grouped(live.paused)} paused, ${grouped(live.cancelled)} cancelled${inTest}`,
    ]),
    light('none', frame, [
      'partners',
      `${grouped(vitals.partners.length - disabled)} active`,
      `${grouped(disabled)} disabled`,
    ]),
    light('none', frame, ['open', grouped(backlog.live.open), 'executions not yet confirmed']),
  ]
}

/** As many findings as there is room for, each with the command to run next. */
function findingLines(findings: readonly Finding[], room: number, { self, width, paint }: Frame): string[] {
  const shown = findings.slice(0, Math.max(1, Math.floor((room - 1) / 2)))
  const lines = shown.flatMap((finding) => [
    `${paint('yellow', '▲')} ${clipped(`${finding.kind} ${finding.subject}: ${finding.message}`, width - 2)}`,
    `  ${paint('dim', clipped(`> ${commandLine(self, finding.next)}`, width - 2))}`,
  ])
  const more = findings.length - shown.length
  return more > 0 ? [...lines, `  ${counted(more, 'more warning')}: tranche check`] : lines
}

function light(mark: Mark, { width, paint }: Frame, [name, value, words]: [string, string, string]): string {
  const { glyph, style } = MARKS[mark]
  const padded = value.padEnd(VALUE_WIDTH)
  const start = `${paint(style, glyph)} ${paint('dim', name.padEnd(NAME_WIDTH))}`
  const room = Math.max(0, width - 2 - NAME_WIDTH - padded.length - 2)
  return `${start}${mark === 'look' ? paint(style, padded) : padded}  ${clipped(words, room)}`.trimEnd()
}

/** What the newest ticks did. */
function tickWords({ passes }: Recent, now: Instant): string {
  const newest = passes.at(-1)
  if (newest === undefined) return 'run tranche tick, or serve --tick-every 60s'
  const { at, finishedAt, executionsCreated, plansEvaluated } = newest
  if (finishedAt === null) return `a newer one, ${since(now, at)} ago, has not ended`
  const done = `${grouped(executionsCreated)} fired, ${counted(plansEvaluated, 'plan')} looked at`
  return `${done}, took ${spellBriefSpan(finishedAt - at)}`
}

/** How many tranches each of the last passes fired. */
function passBars({ passes }: Recent, width: number, paint: Paint): string[] {
  if (passes.length === 0) return []
  const shown = passes.slice(-Math.min(PASSES_SHOWN, width - 13)).map((pass) => pass.executionsCreated)
  const most = Math.max(...shown)
  const bar = (fired: number): string =>
    fired === 0 ? paint('dim', '·') : paint('cyan', BARS[Math.ceil((fired / most) * BARS.length) - 1] ?? '█')
  const words = `fired in each of the last ${counted(shown.length, 'tick')}, at most ${grouped(most)}`
  return [
    `  ${paint('dim', 'ticks'.padEnd(NAME_WIDTH))}${shown.map(bar).join('')}`,
    `  ${' '.repeat(NAME_WIDTH)}${paint('dim', words)}`,
    '',
  ]
}

const STYLE_OF: Partial<Record<Recent['executions'][number]['status'], Style>> = {
  filled: 'green',
  partial: 'yellow',
  failed: 'red',
  cancelled: 'dim',
}

function latest({ executions }: Recent, room: number, { width, paint }: Frame): string[] {
  if (room < 2 || executions.length === 0) return []
  const rows = executions.slice(0, room - 1).map(({ createdAt, status, amount, tenant, partnerPlanId }) => {
    const start = `  ${formatInstant(createdAt).slice(5, 19).replace('T', ' ')}  `
    const money = `  ${grouped(formatUsd(amount)).padStart(12)} USD  `
    const room = Math.max(0, width - start.length - 9 - money.length)
    const name = cut(`${visibleCell(tenant)}  ${visibleCell(partnerPlanId)}`, room)
    const style = STYLE_OF[status]
    const word = status.padEnd(9)
    return `${paint('dim', start)}${style ? paint(style, word) : word}${money}${name}`
  })
  return [paint('dim', '  latest executions'), ...rows]
}

const since = (now: Instant, then: Instant): string => spellSpan(now - then)
