// The log: one JSON line per event on stderr, or readable lines when a person is watching.

import { Writable } from 'node:stream'
import { type DestinationStream, pino } from 'pino'
import { PinoPretty } from 'pino-pretty'
import { visible, visibleLines } from './core/text.ts'
import type { Instant } from './core/time.ts'

export type Log = {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

type LogFormat = 'json' | 'pretty'

export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

const STDERR = 2

export function createLog(format: LogFormat, clock: () => Instant, level: LogLevel = 'info'): Log {
  const options = {
    level,
    base: null,
    timestamp: isoTime(clock),
    formatters: { level: (level: string) => ({ level }) },
  }
  if (format === 'json') return pino(options, forgiving())
  const stderr = forgiving()
  const destination = new Writable({
    decodeStrings: false,
    write(line, _, done) {
      stderr.write(line)
      done()
    },
  })
  const pretty = pino(options, PinoPretty({ destination, translateTime: 'HH:MM:ss' }))
  const legible =
    (level: LogLevel) =>
    (fields: object, message: string): void => {
      const { err, ...rest } = fields as { err?: unknown }
      pretty[level](err === undefined ? {} : { err: legibly(err) }, visible(message + inOneLine(rest)))
    }
  return { debug: legible('debug'), info: legible('info'), warn: legible('warn'), error: legible('error') }
}

/** The time as pino writes it, formatted at most once a millisecond. */
function isoTime(clock: () => Instant): () => string {
  let madeAt: Instant | null = null
  let text = ''
  return () => {
    const now = clock()
    if (now !== madeAt) text = pino.stdTimeFunctions.isoTime()
    madeAt = now
    return text
  }
}

/** Fields as name=value; ids that only a program needs, and missing values, are left out. */
function inOneLine(fields: object): string {
  return Object.entries(fields)
    .filter(([name, value]) => name !== 'request_id' && value !== null && value !== undefined)
    .map(([name, value]) => {
      const text = typeof value === 'string' ? value : JSON.stringify(value)
      return ` ${name}=${/[\s"=]/.test(text) ? JSON.stringify(text) : text}`
    })
    .join('')
}

/** An error with its texts made safe to read, which JSON does not need. The lines of a stack stay separate. */
function legibly(value: unknown): unknown {
  if (typeof value === 'string') return visibleLines(value)
  if (value instanceof Error) return legibly(pino.stdSerializers.err(value))
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(legibly)
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, legibly(inner)]))
}

/** The most text held back while the log accepts nothing; later lines are lost. */
const BACKLOG_CHARS = 1 << 20

/** Writes the lines of a turn of the event loop at once. On a full disk lines are lost, but no purchase fails. */
function forgiving(): DestinationStream {
  const stderr = pino.destination({ dest: STDERR, sync: true, maxLength: BACKLOG_CHARS })
  stderr.on('error', () => {})
  let lines = ''

  function flush(): void {
    const text = lines
    lines = ''
    try {
      if (text !== '') stderr.write(text)
    } catch {
      // The next lines try again.
    }
  }

  process.once('exit', flush)
  return {
    write(line) {
      if (lines === '') setImmediate(flush)
      lines += line
    },
  }
}

export const silentLog: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
