// The live screen of status: urgent findings first, then the numbers, then recent events.

import { setTimeout as wait } from 'node:timers/promises'
import { isOverdue, latenessInWords, schedulerLateness } from '../../core/clock.ts'
import { type FindingKind, UNSPENT_DAYS, type Vitals } from '../../core/findings.ts'
import { formatPrice, formatUsd } from '../../core/money.ts'
import { Problem } from '../../core/problem.ts'
import { counted, cut, grouped, spellBytes, visible, visibleCell } from '../../core/text.ts'
import { formatInstant, type Instant, spellBriefSpan, spellInstant, spellSpan } from '../../core/time.ts'
import type { Recent } from '../../store/monitoring.ts'
import type { FindingJson } from '../command.ts'
import type { Cli, Streams } from '../context.ts'
import { EXIT } from '../exit-codes.ts'
import {
  clipped,
  clippedLeft,
  createPaint,
  onStopSignal,
  type Paint,
  STOP_OR_HANG_UP,
  type Style,
} from '../terminal.ts'
import { type Health, type StatusJson, statusJson, webhooksInWords } from './status-text.ts'

export type StatusView = Health & {
  db: string
  self: string
  everyMs: number
  recent: Recent
  walBytes: number | null
}

/** Passes in the bar chart; the screen holds as many. */
export const PASSES_SHOWN = 60
export const EXECUTIONS_SHOWN = 40
const BARS = '▁▂▃▄▅▆▇█'
const WIDTH_MAX = 100
/** Below this the terminal cuts the lines. */
const WIDTH_MIN = 40

const NAME_WIDTH = 11
const VALUE_WIDTH = 16

/** `self` is the beginning of a command line for this database. */
type Frame = { width: number; paint: Paint; self: string }
type Mark = 'good' | 'look' | 'none'
const MARKS: Record<Mark, { glyph: string; style: Style }> = {
  good: { glyph: '●', style: 'green' },
  look: { glyph: '▲', style: 'yellow' },
  none: { glyph: ' ', style: 'dim' },
}

/** The lines of the screen, none longer than it is wide. */
export function drawScreen(view: StatusView, { columns, rows, paint, trouble }: Screen): string[] {
  // The last column stays empty: a terminal that clears the rest of a full line takes its last character.
  const width = Math.max(WIDTH_MIN, Math.min(columns - 1, WIDTH_MAX))
  const frame = { width, paint, self: view.self }
  const rule = paint('dim', '─'.repeat(width))
  const json = statusJson({ self: () => view.self }, view)
  const { findings } = json
  const state = [...lights(view, json, frame), '', ...numbers(json, frame), '']
  const found = findings.length > 0 ? [...findingLines(findings, rows - state.length - 4, frame), ''] : []
  const top = [title(view, width, paint), rule, ...found, ...state]
  const chart = passBars(view.recent, width, paint)
  const footer = paint('dim', `q quits; looks every ${view.everyMs / 1000} s`)
  const last = trouble === null ? footer : paint('red', clipped(trouble, width))
  const room = Math.max(0, rows - top.length - chart.length - 2)
  const list = latest(view.recent, room, frame)
  const filler = Array<string>(Math.max(0, room - list.length)).fill('')
  return [...[...top, ...chart, ...list, ...filler, ''].slice(0, rows - 1), last]
}

function title({ at, db }: StatusView, width: number, paint: Paint): string {
  const when = `${spellInstant(at)} UTC`
  const room = Math.max(0, width - 'tranche  '.length - when.length - 2)
  const name = clippedLeft(db, room)
  return `${paint('bold', 'tranche')}  ${name.padEnd(room)}  ${when}`
}

function lights(view: StatusView, json: StatusJson, frame: Frame): string[] {
  const { at, vitals, backlog, recent, walBytes } = view
  const { scheduler, feed, disk } = vitals
  const { orders_24h: orders, paused_webhooks: paused, unspent_windows: unspent } = json
  const lastAt = scheduler.lastFinishedAt
  const found = (...kinds: FindingKind[]) =>
    kinds.some((kind) => json.findings.some((one) => one.kind === kind))
  const mark = (...kinds: FindingKind[]): Mark => (found(...kinds) ? 'look' : 'good')
  const { due, oldestDueAt } = backlog.live
  const isLate = found('ticks_stopped') || isOverdue(scheduler, at)
  return [
    light(isLate ? 'look' : lastAt === null ? 'none' : 'good', frame, [
      'last tick',
      lastAt === null ? 'never' : `${since(at, lastAt)} ago`,
      isLate ? lateWords(scheduler, at) : tickWords(recent, at),
    ]),
    light(found('feed_down') ? 'look' : feed ? 'good' : 'none', frame, ['price', ...priceWords(view)]),
    light(mark('executions_stuck', 'partner_silent'), frame, [
      'due now',
      grouped(due),
      oldestDueAt === null ? 'nothing waits for a poll' : `the oldest waiting ${since(at, oldestDueAt)}`,
    ]),
    light(mark('partner_failing'), frame, [
      'orders',
      `${grouped(orders.failed)} failed`,
      `${grouped(orders.filled)} filled in 24 hours`,
    ]),
    light(mark('webhook_failing'), frame, [
      'webhooks',
      paused.length > 0 ? `${paused.length} paused` : 'none paused',
      webhooksInWords(paused),
    ]),
    light(mark('windows_unspent'), frame, [
      'unspent',
      `${grouped(unspent.released_usd)} USD`,
      `${unspent.count > 0 ? `left by ${counted(unspent.count, 'window')} ` : ''}in ${UNSPENT_DAYS} days`,
    ]),
    ...(walBytes === null
      ? []
      : [
          light(mark('wal_large'), frame, [
            'log',
            spellBytes(walBytes),
            'write-ahead log, not yet checkpointed',
          ]),
        ]),
    ...(disk
      ? [light(mark('disk_low'), frame, ['disk', `${spellBytes(disk.freeBytes)} free`, `in ${disk.folder}`])]
      : []),
  ]
}

function priceWords({ at, vitals: { price, feed } }: StatusView): [string, string] {
  const state = feed === null ? '' : `; feed ${feed.name} ${feed.down ? 'is down' : 'answers'}`
  return [
    price ? `${grouped(formatPrice(price.price))} USD` : 'none',
    (price ? `${since(at, price.at)} old, from ${price.source}` : 'the schedule is a clock') + state,
  ]
}

function numbers({ plans, partners, test, executions_open: open }: StatusJson, frame: Frame): string[] {
  const inTest = test.plans.active > 0 ? `; ${grouped(test.plans.active)} in test` : ''
  return [
    light('none', frame, [
      'plans',
      `${grouped(plans.active)} active`,
      `${grouped(plans.paused)} paused, ${grouped(plans.cancelled)} cancelled${inTest}`,
    ]),
    light('none', frame, [
      'partners',
      `${grouped(partners.active)} active`,
      `${grouped(partners.disabled)} disabled`,
    ]),
    light('none', frame, ['open', grouped(open), 'executions not yet confirmed']),
  ]
}

/** Whole findings, as many as there is room for, each with the command to run next; the first one in any case. */
function findingLines(findings: FindingJson[], room: number, { self, width, paint }: Frame): string[] {
  const lines: string[] = []
  let shown = 0
  for (const finding of findings) {
    const text = visible(`${finding.kind} ${finding.subject}: ${finding.message}`)
    const [first = '', ...rest] = wrapped(text, width - 2)
    const block = [
      `${paint('yellow', '▲')} ${first}`,
      ...rest.map((line) => `  ${line}`),
      ...commandLines(finding.mend, width - 4).map((line) => `  ${paint('dim', line)}`),
    ]
    if (shown > 0 && lines.length + block.length + 1 > room) break
    lines.push(...block)
    shown += 1
  }
  const more = findings.length - shown
  return more > 0 ? [...lines, `  ${counted(more, 'more warning')}: ${self} check`] : lines
}

/** A text in lines of at most `width` columns, broken between words, or anywhere in a longer word, such as a path. */
function wrapped(text: string, width: number): string[] {
  const lines: string[] = []
  let rest = text
  while (clipped(rest, width) !== rest) {
    const most = clipped(rest, width).length - 1
    const space = rest.lastIndexOf(' ', most)
    const end = space > most / 2 ? space : Math.max(1, most)
    lines.push(rest.slice(0, end))
    rest = rest.slice(end).replace(/^ /, '')
  }
  return [...lines, rest]
}

/** A command in lines that a shell still takes as one command when pasted. */
const commandLines = (command: string, width: number): string[] => {
  const lines = wrapped(command, width - 2)
  return lines.map((line, at) => `${at === 0 ? '> ' : '  '}${line}${at < lines.length - 1 ? ' \\' : ''}`)
}

function light(mark: Mark, { width, paint }: Frame, [name, value, words]: [string, string, string]): string {
  const { glyph, style } = MARKS[mark]
  const padded = value.padEnd(VALUE_WIDTH)
  const start = `${paint(style, glyph)} ${paint('dim', name.padEnd(NAME_WIDTH))}`
  const room = Math.max(0, width - 2 - NAME_WIDTH - padded.length - 2)
  return `${start}${mark === 'look' ? paint(style, padded) : padded}  ${clipped(words, room)}`.trimEnd()
}

/** Short, because the time since the last one is shown beside it. */
function lateWords(scheduler: Vitals['scheduler'], at: Instant): string {
  const { usualGapMs } = schedulerLateness(scheduler, at)
  const isKnown = usualGapMs !== null && scheduler.lastFinishedAt !== null
  return isKnown ? `${spellSpan(usualGapMs)} is usual` : latenessInWords(scheduler, at, usualGapMs)
}

function tickWords({ passes }: Recent, now: Instant): string {
  const newest = passes.at(-1)
  if (newest === undefined) return 'run tranche tick, or serve --tick-every 60s'
  const { at, finishedAt, executionsCreated, plansEvaluated } = newest
  if (finishedAt === null) return `a newer one, ${since(now, at)} ago, has not ended`
  const done = `${grouped(executionsCreated)} fired, ${counted(plansEvaluated, 'plan')} looked at`
  return `${done}, took ${spellBriefSpan(finishedAt - at)}`
}

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

// The loop of status --watch: one screen that redraws itself on a terminal; elsewhere one status after the other.

type Input = Streams['in'] & { setRawMode?: (raw: boolean) => unknown }
type Output = Streams['out'] & { columns?: number; rows?: number }

type Watched<T> = {
  everyMs: number
  look: () => Promise<T>
  /** The output for a script, once per interval. */
  line: (view: T) => Promise<string>
  /** The output for a person. `trouble` is why the latest look failed. */
  draw: (view: T, screen: Screen) => string[]
}
type Screen = { columns: number; rows: number; paint: Paint; trouble: string | null }

const CTRL_C = '\x03'

/** Ends when told to: q gives 0; Ctrl-C, from the keyboard or as a signal, 130. A first look that fails throws. */
export async function watch<T>(cli: Cli, watched: Watched<T>): Promise<void> {
  const first = await watched.look()
  const stop = stopOf(cli)
  try {
    const isScreen = cli.streams.out.isTTY && !cli.globals().json
    await (isScreen ? redraw : printEach)(cli, first, { ...watched, signal: stop.signal })
  } finally {
    stop.release()
  }
}

type Watching<T> = Watched<T> & { signal: AbortSignal }

async function printEach<T>(cli: Cli, first: T, { everyMs, look, line, signal }: Watching<T>): Promise<void> {
  for (let view = first; ; view = await look()) {
    cli.streams.out.write(`${await line(view)}\n`)
    if (!(await passed(everyMs, signal))) return
  }
}

async function redraw<T>(cli: Cli, first: T, { everyMs, look, draw, signal }: Watching<T>): Promise<void> {
  const out: Output = cli.streams.out
  const paint = createPaint(out, cli.globals().color)
  let [view, trouble]: [T, string | null] = [first, null]
  const show = (): void => {
    // A terminal that does not know its size says 0.
    const [columns, rows] = [out.columns || 80, out.rows || 24]
    const lines = draw(view, { columns, rows, paint, trouble }).slice(0, rows)
    // Each line clears the rest of itself, and the last one what is below, so nothing blinks. Terminals that can hold a
    // frame back until it is complete are asked to; others ignore the request.
    out.write(`\x1b[?2026h\x1b[H${lines.map((text) => `${text}\x1b[K`).join('\r\n')}\x1b[J\x1b[?2026l`)
  }
  // A separate screen without a cursor; the terminal cuts lines that are too long.
  out.write('\x1b[?1049h\x1b[?25l\x1b[?7l')
  out.on('resize', show)
  try {
    for (show(); await passed(everyMs, signal); show()) {
      try {
        ;[view, trouble] = [await look(), null]
      } catch (error) {
        // A lock that was held too long will be released; the next look may succeed, and the person at the screen
        // decides.
        if (!(error instanceof Problem)) throw error
        trouble = error.message
      }
    }
  } finally {
    out.off('resize', show)
    out.write('\x1b[?7h\x1b[?25h\x1b[?1049l')
  }
}

/** Whether the time passed without a request to stop. */
const passed = (ms: number, signal: AbortSignal): Promise<boolean> =>
  wait(ms, true, { signal }).catch(() => false)

/** Listens to signals, and to the keyboard where there is one, until it is released. */
function stopOf(cli: Cli): { signal: AbortSignal; release: () => void } {
  const input: Input = cli.streams.in
  const control = new AbortController()
  const interrupt = (): void => {
    cli.exitWith(EXIT.interrupted)
    control.abort()
  }
  const onKey = (keys: Buffer | string): void => {
    const text = String(keys)
    if (text.includes(CTRL_C)) interrupt()
    else if (/q/i.test(text)) control.abort()
  }
  const keyboard = input.isTTY && cli.streams.out.isTTY && !cli.globals().json
  if (keyboard) {
    input.setRawMode?.(true)
    input.on('data', onKey).resume()
  }
  const release = onStopSignal(interrupt, STOP_OR_HANG_UP)
  return {
    signal: control.signal,
    release: () => {
      release()
      if (!keyboard) return
      input.off('data', onKey).pause()
      input.setRawMode?.(false)
    },
  }
}
