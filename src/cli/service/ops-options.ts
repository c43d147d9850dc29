// The information of serve for operators, its listener, and its token.

import { isIPv4, isIPv6 } from 'node:net'
import { InvalidArgumentError, type Option } from 'commander'
import { usage } from '../../core/problem.ts'
import type { Ops } from '../../http/ops/endpoints.ts'
import type { Metrics } from '../../http/ops/metrics.ts'
import type { Log } from '../../log.ts'
import { commandLine } from '../command.ts'
import type { Cli } from '../context.ts'
import { readInput } from '../input-file.ts'
import { fromAnyShell } from '../installed.ts'
import { setting } from '../options.ts'

/** Connections to the listener of operations: a scraper, a person and other monitors. Partners never connect to it. */
export const OPS_CONNECTIONS_MAX = 32

export type OpsPlace = { host: string; port: number }
export type OpsOptions = { opsListen: OpsPlace | null; opsTokenFile?: string }

export const opsListenOption = (): Option =>
  setting(
    '--ops-listen <address>',
    'a listener for /metrics, details of /readyz and /ops, such as 127.0.0.1:9090; plain HTTP; off for none',
  )
    .argParser(placeOrOff)
    .default('off')

/** An address, not a name: a name may later lead to another address. */
function placeOrOff(text: string): OpsPlace | 'off' {
  if (text === 'off') return text
  const [, bracketed, plain, port] = /^(?:\[([\da-fA-F:.]+)\]|([\d.]+)):(\d{1,5})$/.exec(text) ?? []
  const host = bracketed ?? plain ?? ''
  const isAddress = bracketed === undefined ? isIPv4(host) : isIPv6(host)
  if (isAddress && Number(port) <= 65_535) return { host, port: Number(port) }
  throw new InvalidArgumentError('Give an address and a port, such as 127.0.0.1:9090 or [::1]:9090, or off.')
}

/** Throws usage as `tokenOf` does. */
export async function opsOf(
  cli: Cli,
  { opsListen, opsTokenFile }: OpsOptions,
  log: Log,
): Promise<{ ops: Ops; metrics: Metrics }> {
  const { createMetrics, EXPOSITION_TYPE } = await import('../../http/ops/metrics.ts')
  const { createOps } = await import('../../http/ops/endpoints.ts')
  const token = await tokenOf(opsListen, opsTokenFile)
  const metrics = createMetrics()
  // A page is read elsewhere than where serve was started, so its commands name the database, or find it by themselves.
  const self = fromAnyShell(cli.globals().db)
  const ops = createOps({
    clock: cli.machine.clock,
    metrics,
    exposition: EXPOSITION_TYPE,
    token,
    pasted: (words) => commandLine(self, words),
    onManyWrong: () => log.warn({}, 'somebody may be guessing the ops token: many wrong ones in a minute'),
  })
  return { ops, metrics }
}

export const opsTokenOption = (): Option =>
  setting(
    '--ops-token-file <file>',
    'anyone who sends this token may see /metrics, details of /readyz and /ops, at either listener',
  )

/** Throws usage for a file without a token, and for a listener that others can reach without one. */
async function tokenOf(listener: { host: string } | null, file: string | undefined): Promise<string | null> {
  const { isLoopbackAddress, KEY_START } = await import('../../http/ops/access.ts')
  if (listener && file === undefined && !isLoopbackAddress(listener.host)) {
    const what = `--ops-listen ${listener.host}, which other machines may reach,`
    throw usage(`${what} needs --ops-token-file.`)
  }
  return file === undefined ? null : readToken(file, KEY_START)
}

/** Throws usage when the file does not hold a proper token. */
function readToken(file: string, keyStart: string): string {
  const token = readInput(file).trim()
  if (token.startsWith(keyStart))
    throw usage(
      `${file} holds a partner's key. The ops token must be another one, such as 32 random characters.`,
    )
  if (!/^[\x21-\x7e]{16,1024}$/.test(token))
    throw usage(`${file} must hold one token: 16 to 1024 printable characters, no blanks.`)
  if (isEasilyGuessed(token))
    throw usage(`The token in ${file} is easily guessed. Make one with: head -c 24 /dev/urandom | base64`)
  return token
}

/** The least number of different characters in a token. Of 16 random digits, one in 10,000 has fewer. */
const DIFFERENT_MIN = 5
/** The least number of characters before a token begins to repeat itself. */
const BEFORE_REPEATING_MIN = 16
/** So few repetitions happen by chance. */
const REPEATED_BY_CHANCE = 3

/** A right token is accepted after any number of wrong ones. Finds what people type to reach a length. */
function isEasilyGuessed(token: string): boolean {
  const repeats = (after: number): boolean =>
    token.length - after > REPEATED_BY_CHANCE && token.startsWith(token.slice(after))
  const parts = Array.from({ length: BEFORE_REPEATING_MIN - 1 }, (_, i) => i + 1)
  return new Set(token).size < DIFFERENT_MIN || parts.some(repeats)
}
