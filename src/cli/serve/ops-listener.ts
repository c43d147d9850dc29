// What serve tells those who run it, and where: at its listener of operations, or at the one of partners.

import { isIPv4, isIPv6 } from 'node:net'
import { InvalidArgumentError, Option } from 'commander'
import type { Metrics } from '../../http/metrics/metrics.ts'
import type { Ops } from '../../http/ops/endpoints.ts'
import type { Log } from '../../log.ts'
import type { Cli } from '../context.ts'
import { tokenOf } from './ops-token.ts'

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

/** An address and not a name: a name may later lead to another address. */
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
  const { createMetrics, EXPOSITION_TYPE } = await import('../../http/metrics/metrics.ts')
  const { createOps } = await import('../../http/ops/endpoints.ts')
  const token = await tokenOf(opsListen, opsTokenFile)
  const metrics = createMetrics()
  const ops = createOps({
    clock: cli.machine.clock,
    metrics,
    exposition: EXPOSITION_TYPE,
    token,
    onManyWrong: () => log.warn({}, 'somebody may be guessing the ops token: many wrong ones in a minute'),
  })
  return { ops, metrics }
}
