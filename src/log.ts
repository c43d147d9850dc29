// The log: one JSON line per event on stderr, or readable lines when a person is watching.

import { pino } from 'pino'
import { PinoPretty } from 'pino-pretty'

export type Log = {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

export type LogFormat = 'json' | 'pretty'

export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

const STDERR = 2

export function createLog(format: LogFormat, level: LogLevel = 'info'): Log {
  const options = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (level: string) => ({ level }) },
  }
  if (format === 'json') return pino(options, pino.destination({ dest: STDERR, sync: true }))
  const pretty = PinoPretty({
    destination: STDERR,
    sync: true,
    translateTime: 'HH:MM:ss',
    ignore: 'request_id',
  })
  return pino(options, pretty)
}

/** Says nothing. */
export const silentLog: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
