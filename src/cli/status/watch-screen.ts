// The live screen of status: what needs a look first, then the numbers, then what happened last.

import { DUE_LATE_MS, UNSPENT_DAYS, WAL_LARGE_BYTES } from '../../core/alarms.ts'
import { counted, grouped } from '../../core/counted.ts'
import { formatInstant, type Instant } from '../../core/instant.ts'
import { formatPrice, formatUsd } from '../../core/money.ts'
import { latenessInWords, schedulerLateness } from '../../core/scheduler-lateness.ts'
import { spellSpan } from '../../core/span.ts'
import { visibleCell } from '../../core/visible.ts'
import type { Recent } from '../../store/status.ts'
import type { Paint, Style } from '../terminal/paint.ts'
import type { Health } from './report.ts'
import type { Screen } from './watch.ts'

export type Seen = Health & { db: string; everyMs: number; recent: Recent; walBytes: number }

/** Passes in the bar chart; the screen holds as many. */
export const PASSES_SHOWN = 60
/** The most executions a tall screen lists. */
export const EXECUTIONS_SHOWN = 40
const BARS = '▁▂▃▄▅▆▇█'
const WIDTH_MAX = 100
/** Below this the terminal cuts the lines. */
const WIDTH_MIN = 40
const MIB = 2 ** 20

const NAME_WIDTH = 11
const VALUE_WIDTH = 16

type Frame = { width: number; paint: Paint }
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
  const frame = { width, paint }
  const rule = paint('dim', '─'.repeat(width))
  const top = [title(seen, width, paint), rule, ...lights(seen, frame), '', ...numbers(seen, frame), '']
  const chart = passBars(seen.recent, width, paint)
  const footer = paint('dim', `q quits; looks every ${seen.everyMs / 1000} s`)
  const last = trouble === null ? footer : paint('red', clipped(trouble, width))
  const room = Math.max(0, rows - top.length - chart.length - 2)
  const list = latest(seen.recent, room, frame)
  const filler = Array<string>(Math.max(0, room - list.length)).fill('')
  return [...[...top, ...chart, ...list, ...filler, ''].slice(0, rows - 1), last]
}

function title({ at, db }: Seen, width: number, paint: Paint): string {
  const when = `${formatInstant(at).slice(0, 19).replace('T', ' ')} UTC`
  const room = Math.max(0, width - 'tranche  '.length - when.length - 2)
  const name = clippedLeft(db, room)
  return `${paint('bold', 'tranche')}  ${name.padEnd(room)}  ${when}`
}

/** What is well and what needs a look, by colour and by shape. */
function lights({ at, status, scheduler, backlog, recent, walBytes }: Seen, frame: Frame): string[] {
  const pass = recent.passes.at(-1)
  const { isLate, usualGapMs } = schedulerLateness(scheduler, at)
  const dueLate = backlog.oldestDueAt !== null && at - backlog.oldestDueAt > DUE_LATE_MS
  const paused = status.pausedWebhooks.map((tenant) => `${tenant.partnerSlug} ${tenant.environment}`)
  const unspent = status.unspentWindows
  return [
    light(isLate ? 'look' : pass ? 'good' : 'none', frame, [
      'last tick',
      pass ? `${since(at, pass.at)} ago` : 'never',
      !pass
        ? 'run tranche tick, or serve --tick-every 60s'
        : isLate
          ? latenessInWords(scheduler, at, usualGapMs)
          : passWords(pass),
    ]),
    light(dueLate ? 'look' : 'good', frame, [
      'due now',
      grouped(backlog.due),
      backlog.due === 0
        ? 'nothing waits for a poll'
        : backlog.oldestDueAt === null
          ? 'all of it in sandboxes'
          : `the oldest for ${since(at, backlog.oldestDueAt)}`,
    ]),
    light(paused.length > 0 ? 'look' : 'good', frame, [
      'webhooks',
      paused.length > 0 ? `${paused.length} paused` : 'none paused',
      paused.join(', '),
    ]),
    light(unspent.count > 0 ? 'look' : 'good', frame, [
      'unspent',
      `${grouped(formatUsd(unspent.released))} USD`,
      unspent.count > 0
        ? `left by ${counted(unspent.count, 'window')} in ${UNSPENT_DAYS} days`
        : `in ${UNSPENT_DAYS} days`,
    ]),
    light(walBytes > WAL_LARGE_BYTES ? 'look' : 'good', frame, [
      'log',
      `${(walBytes / MIB).toFixed(1)} MiB`,
      'write-ahead log, not yet folded in',
    ]),
  ]
}

function numbers({ at, status, plans, backlog, recent }: Seen, frame: Frame): string[] {
  const { partners } = status
  const { price } = recent
  return [
    light('none', frame, [
      'plans',
      `${grouped(plans.active)} active`,
      `${grouped(plans.paused)} paused, ${grouped(plans.cancelled)} cancelled`,
    ]),
    light('none', frame, ['partners', `${grouped(partners.active)} active`, `${partners.disabled} disabled`]),
    light('none', frame, ['open', grouped(backlog.open), 'executions not yet confirmed']),
    light('none', frame, [
      'price',
      price ? `${grouped(formatPrice(price.price))} USD` : 'none',
      price ? `${since(at, price.at)} old, from ${price.source}` : 'the schedule is a clock',
    ]),
  ]
}

function light(mark: Mark, { width, paint }: Frame, [name, value, words]: [string, string, string]): string {
  const { glyph, style } = MARKS[mark]
  const padded = value.padEnd(VALUE_WIDTH)
  const start = `${paint(style, glyph)} ${paint('dim', name.padEnd(NAME_WIDTH))}`
  const room = Math.max(0, width - 2 - NAME_WIDTH - padded.length - 2)
  return `${start}${mark === 'look' ? paint(style, padded) : padded}  ${clipped(words, room)}`.trimEnd()
}

function passWords(tick: Recent['passes'][number]): string {
  const fired = `${grouped(tick.executionsCreated)} fired, ${counted(tick.plansEvaluated, 'plan')} looked at`
  if (tick.finishedAt === null) return `${fired}, still running or cut off`
  const ms = tick.finishedAt - tick.at
  return `${fired}, took ${ms < 1_000 ? `${ms} ms` : `${(ms / 1_000).toFixed(1)} s`}`
}

/** How many each of the last passes fired. */
function passBars({ passes }: Recent, width: number, paint: Paint): string[] {
  if (passes.length === 0) return []
  const shown = passes.slice(-Math.min(PASSES_SHOWN, width - 13)).map((tick) => tick.executionsCreated)
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
    const name = clipped(`${tenant}  ${partnerPlanId}`, Math.max(0, width - start.length - 9 - money.length))
    const style = STYLE_OF[status]
    const word = status.padEnd(9)
    return `${paint('dim', start)}${style ? paint(style, word) : word}${money}${name}`
  })
  return [paint('dim', '  latest executions'), ...rows]
}

const since = (now: Instant, then: Instant): string => spellSpan(now - then)

/** Counted in characters as a reader sees them; a name of wide ones is cut by the terminal. Nobody's words leave it. */
const clipped = (text: string, room: number): string => {
  const characters = [...visibleCell(text)]
  return characters.length <= room
    ? characters.join('')
    : `${characters.slice(0, Math.max(0, room - 1)).join('')}…`
}
const clippedLeft = (text: string, room: number): string => {
  const characters = [...visibleCell(text)]
  return characters.length <= room
    ? characters.join('')
    : `…${characters.slice(characters.length - room + 1).join('')}`
}
