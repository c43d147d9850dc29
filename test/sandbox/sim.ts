// A sandbox with a plan in it, and the simulated partner on its service.

import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { link, plan } from '../http/steps.ts'
import { temporaryFolder } from '../support/database.ts'
import { type Outcome, runHere } from '../support/service.ts'
import { type Bench, startBench } from './bench.ts'

type Sim = Bench & {
  folder: string
  keyFile: string
  sim: (...argv: string[]) => Promise<Outcome>
}

export async function startSim(t: TestContext): Promise<Sim> {
  const bench = await startBench(t)
  const folder = temporaryFolder(t)
  const keyFile = keyIn(folder, 'acme.key', bench.key)
  await link(bench, 'u1')
  await plan(bench, 'u1', 'p1')
  return {
    ...bench,
    folder,
    keyFile,
    sim: (...argv) => simulate(folder, ['acme', '--key-file', keyFile, '--url', bench.url, ...argv]),
  }
}

export function keyIn(folder: string, name: string, key: string): string {
  const file = join(folder, name)
  writeFileSync(file, `${key}\n`)
  chmodSync(file, 0o600)
  return file
}

const simulate = (folder: string, argv: readonly string[]): Promise<Outcome> =>
  runHere(['--db', join(folder, 'none.db'), 'partner-sim', ...argv])
