// --ping: a call to somebody's heartbeat monitor after each tick, check or backup, so that silence raises an alarm too.

import { InvalidArgumentError, Option } from 'commander'
import { call } from '../../outgoing-call.ts'

const PING_TIMEOUT_MS = 5_000
const CHARACTERS_MAX = 10_000
const ANSWER_BYTES_MAX = 1_024
const AGENT = { 'user-agent': 'tranche' }
const TEXT = { ...AGENT, 'content-type': 'text/plain; charset=utf-8' }

export const pingOption = () =>
  new Option('--ping <url>', 'call this URL after each tick; URL/fail with the reason if it failed')
    .env('TRANCHE_PING_URL')
    .argParser(pingUrl)

export function pingUrl(text: string): URL {
  const url = URL.parse(text)
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return url
  throw new InvalidArgumentError('Give an http or https address.')
}

/** Reports a job to the monitor: null for success, else the reason. Never throws, and takes five seconds at most. */
export type Ping = (failure: string | null) => Promise<void>

/** `warn` is called when a call fails, with only the host of the address: the rest would let others call it. */
export function createPing(url: URL | undefined, warn: (message: string) => void): Ping {
  if (url === undefined) return async () => {}
  return async (failure) => {
    const [address, sent] =
      failure === null
        ? [url, { method: 'GET', headers: AGENT } as const]
        : [failUrl(url), { method: 'POST', headers: TEXT, body: failure.slice(0, CHARACTERS_MAX) } as const]
    try {
      const limits = { timeoutMs: PING_TIMEOUT_MS, answerBytesMax: ANSWER_BYTES_MAX }
      const { statusCode: status } = await call(address, { ...sent, ...limits })
      if (status < 200 || status > 299) throw new Error(`HTTP ${status}`)
    } catch (error) {
      warn(`ping ${url.host}: ${(error as Error).message}`)
    }
  }
}

/** The address with /fail at the end of its path; a query stays. */
function failUrl(url: URL): URL {
  const fail = new URL(url)
  fail.pathname = `${url.pathname.replace(/\/+$/, '')}/fail`
  return fail
}
