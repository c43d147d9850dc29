// The options of partner-sim: shares, the address of the service, the file with the key.

import { InvalidArgumentError } from 'commander'
import { Problem } from '../../core/problem.ts'
import { readKeyFile } from '../options/service.ts'

const LIVE_PREFIX = 'sse_live_'

export type SimOptions = {
  keyFile: string
  url: string
  fill?: number
  part: number
  fail: number
  price?: string
  seed: number
  once: boolean
  every: number
  live: boolean
}

export function readKey({ keyFile, live }: SimOptions): string {
  const key = readKeyFile(keyFile)
  if (key.startsWith(LIVE_PREFIX) && !live) throw liveRefused()
  return key
}

export const liveRefused = (): Problem =>
  new Problem('usage', 'This is a live key, and what it confirms is billed: add --live if you mean it.')

export function mannersOf({ fill, part, fail }: SimOptions) {
  const silent = fill === undefined ? 0 : 1 - fill - part - fail
  // Tenths do not add up exactly in binary.
  if (part + fail > 1 || silent < -1e-9) {
    throw new Problem('usage', 'The shares of --fill, --part and --fail add up to more than 1.')
  }
  return { partial: part, failed: fail, silent: Math.max(0, silent), answerLost: 0 }
}

export function share(text: string): number {
  const value = /^([01]|[01]?\.\d{1,6})$/.test(text) ? Number(text) : Number.NaN
  if (value >= 0 && value <= 1) return value
  throw new InvalidArgumentError('A share is a decimal from 0 to 1, such as 0.1.')
}
