// status --watch: one screen that redraws itself on a terminal; elsewhere one status after the other.

import { setTimeout as wait } from 'node:timers/promises'
import { Problem } from '../../core/problem.ts'
import type { Cli, Streams } from '../context.ts'
import { EXIT } from '../shared/exit-codes.ts'
import { createPaint } from '../terminal/paint.ts'
import { onStopSignal } from '../terminal/signals.ts'

type Input = Streams['in'] & { setRawMode?: (raw: boolean) => unknown }
type Output = Streams['out'] & { columns?: number; rows?: number }

export type Watched<T> = {
  everyMs: number
  /** Looks once. */
  look: () => Promise<T>
  /** What a script gets, once per interval. */
  line: (seen: T) => Promise<string>
  /** What a person gets. `trouble` is why the latest look failed. */
  draw: (seen: T, screen: Screen) => string[]
}
export type Screen = {
  columns: number
  rows: number
  paint: ReturnType<typeof createPaint>
  trouble: string | null
}

const COLUMNS = 80
const ROWS = 24
const CTRL_C = '\x03'

/**
 * Ends when it is told to: q is 0; Ctrl-C, from the keyboard or as a signal, is 130. A first look that fails throws.
 */
export async function watch<T>(cli: Cli, watched: Watched<T>): Promise<void> {
  const first = await watched.look()
  const stop = stopOf(cli)
  try {
    const { out } = cli.streams
    if (cli.globals().json || !out.isTTY) await printEach(out, first, { ...watched, signal: stop.signal })
    else await redraw(cli, first, { ...watched, signal: stop.signal })
  } finally {
    stop.release()
  }
}

type Until = { signal: AbortSignal }

async function printEach<T>(
  out: Output,
  first: T,
  { everyMs, look, line, signal }: Watched<T> & Until,
): Promise<void> {
  for (let seen = first; ; seen = await look()) {
    out.write(`${await line(seen)}\n`)
    if (!(await passed(everyMs, signal))) return
  }
}

async function redraw<T>(
  cli: Cli,
  first: T,
  { everyMs, look, draw, signal }: Watched<T> & Until,
): Promise<void> {
  const out: Output = cli.streams.out
  const paint = createPaint(out, cli.globals().color)
  let [seen, trouble]: [T, string | null] = [first, null]
  const show = (): void => {
    // A terminal that does not know its size says 0.
    const [columns, rows] = [out.columns || COLUMNS, out.rows || ROWS]
    const lines = draw(seen, { columns, rows, paint, trouble }).slice(0, rows)
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
        ;[seen, trouble] = [await look(), null]
      } catch (error) {
        // A lock that was held too long passes; the next look may be luckier, and the person at the screen decides.
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
  const signals = onStopSignal(interrupt, { hangUp: true })
  return {
    signal: control.signal,
    release: () => {
      signals.release()
      if (!keyboard) return
      input.off('data', onKey).pause()
      input.setRawMode?.(false)
    },
  }
}
