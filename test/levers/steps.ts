// The command line beside the service: on its file, at its clock.

import assert from 'node:assert/strict'
import { machineAt } from '../../src/machine.ts'
import type { Service } from '../support/service.ts'
import { type Outcome, runHere } from '../support/service.ts'

export const command = (service: Service, argv: readonly string[]): Promise<Outcome> =>
  runHere(['--db', service.file, ...argv], { machine: machineAt(service.now()).machine })

/** A command that must succeed; answers its stdout. */
export async function shell(service: Service, argv: readonly string[]): Promise<string> {
  const { code, out, err } = await command(service, argv)
  assert.equal(code, 0, `${argv.join(' ')}: ${err}`)
  return out
}

export const adjustTo = (service: Service, id: string, usd: string, btc: string) =>
  command(service, ['trade', 'adjust', id, '--usd', usd, '--btc', btc, '--reason', 'wrong'])
