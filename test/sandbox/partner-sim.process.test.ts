// partner-sim as a process that somebody interrupts.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PRICE } from '../http/steps.ts'
import { start } from '../support/process.ts'
import { startSim } from './sim.ts'

test('it goes on until it is interrupted, and ends with 130', async (t) => {
  const bench = await startSim(t)
  const argv = ['partner-sim', 'acme', '--key-file', bench.keyFile, '--url', bench.url, '--every', '1s']
  const sim = start(t, [...argv, '--price', PRICE, '--part', '0', '--fail', '0'], { cwd: bench.folder })
  await sim.line('Polling')
  await bench.fire(await bench.tenant('acme', 'test'), 'p1')
  await sim.prints('\n')
  sim.child.kill('SIGINT')
  assert.equal(await sim.ended, 130)
  assert.match(sim.out(), /^p1 exec_[0-9a-f]{32} filled 10\.00 of 10\.00 USD/)
  assert.match(sim.err(), /1 instruction, 0 delivered again: 1 filled/)
})
