// The command line beside the service: on its file, at its clock.

import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { machineAt } from '../../src/machine.ts'
import { run } from '../../src/main.ts'
import type { Service } from '../support/service.ts'
import { capture, type Outcome } from '../support/shell.ts'

export async function command(service: Service, argv: readonly string[]): Promise<Outcome> {
  const [out, err] = [capture(false), capture(false)]
  const streams = { out, err, in: Readable.from([]) }
  const { machine } = machineAt(service.now())
  const code = await run(['--db', service.file, ...argv], { streams, machine, env: {} })
  return { code, out: out.text(), err: err.text() }
}

/** A command that must succeed; answers its stdout. */
export async function shell(service: Service, argv: readonly string[]): Promise<string> {
  const { code, out, err } = await command(service, argv)
  assert.equal(code, 0, `${argv.join(' ')}: ${err}`)
  return out
}

export const adjustTo = (service: Service, id: string, usd: string, btc: string) =>
  command(service, ['trade', 'adjust', id, '--usd', usd, '--btc', btc, '--reason', 'wrong'])
