// What serve tells those who run it, to whom, and where.

import { isIPv4, isIPv6 } from 'node:net'
import { InvalidArgumentError, Option } from 'commander'
import { Problem } from '../../core/problem.ts'
import type { Metrics } from '../../http/metrics/metrics.ts'
import type { Ops } from '../../http/ops/endpoints.ts'
import type { Log } from '../../log.ts'
import type { Cli } from '../context.ts'
import { readInput } from '../shared/read-input.ts'

export type OpsPlace = { host: string; port: number }
export type OpsOptions = { opsListen: OpsPlace | null; opsTokenFile?: string }

export const opsListenOption = (): Option =>
  new Option(
    '--ops-listen <address>',
    'a listener for /metrics, details of /readyz and /ops, such as 127.0.0.1:9090; plain HTTP; off for none',
  )
    .env('TRANCHE_OPS_LISTEN')
    .argParser(placeOrOff)
    .default('off')

export const opsTokenOption = (): Option =>
  new Option(
    '--ops-token-file <file>',
    'whoever sends this token may see /metrics, details of /readyz and /ops, at either listener',
  ).env('TRANCHE_OPS_TOKEN_FILE')

/** An address and not a name: a name may later lead to another address. */
function placeOrOff(text: string): OpsPlace | 'off' {
  if (text === 'off') return text
  const [, bracketed, plain, port] = /^(?:\[([\da-fA-F:.]+)\]|([\d.]+)):(\d{1,5})$/.exec(text) ?? []
  const host = bracketed ?? plain ?? ''
  const isAddress = bracketed === undefined ? isIPv4(host) : isIPv6(host)
  if (isAddress && Number(port) <= 65_535) return { host, port: Number(port) }
  throw new InvalidArgumentError('Give an address and a port, such as 127.0.0.1:9090 or [::1]:9090, or off.')
}

/** Throws usage for a file without a token, and for a listener that others can reach without one. */
export async function opsOf(
  cli: Cli,
  { opsListen, opsTokenFile }: OpsOptions,
  log: Log,
): Promise<{ ops: Ops; metrics: Metrics }> {
  const { createMetrics, EXPOSITION_TYPE } = await import('../../http/metrics/metrics.ts')
  const { createOps } = await import('../../http/ops/endpoints.ts')
  const { isLoopbackAddress, KEY_START } = await import('../../http/ops/access.ts')
  if (opsListen && opsTokenFile === undefined && !isLoopbackAddress(opsListen.host)) {
    const what = `--ops-listen ${opsListen.host}, which other machines may reach,`
    throw new Problem('usage', `${what} needs --ops-token-file.`)
  }
  const token = opsTokenFile === undefined ? null : readToken(opsTokenFile, KEY_START)
  const metrics = createMetrics()
  const ops = createOps({
    clock: cli.machine.clock,
    metrics,
    exposition: EXPOSITION_TYPE,
    token,
    onLocked: () => log.warn({}, 'too many wrong ops tokens: none from there is checked for a minute'),
  })
  return { ops, metrics }
}

/** Throws usage when the file does not hold a proper token. */
function readToken(file: string, keyStart: string): string {
  const token = readInput(file).trim()
  if (token.startsWith(keyStart))
    throw new Problem(
      'usage',
      `${file} holds a partner's key. The ops token must be another one, such as 32 random characters.`,
    )
  if (/^[\x21-\x7e]{16,1024}$/.test(token)) return token
  throw new Problem('usage', `${file} must hold one token: 16 to 1024 printable characters, no blanks.`)
}
