// A process that runs a pass and stops at the third tranche that it fires, inside its first page, or at another one,
// until it is told to continue. Then it reports the result of its pass.

import { writeSync } from 'node:fs'
import { machineAt } from '../../src/machine.ts'
import { openStore } from '../../src/store/postgres/open.ts'
import { T0, tick } from './world.ts'

const [, , address = '', at = '3'] = process.argv
const { machine } = machineAt(T0)
const store = await openStore(address, { clock: machine.clock, create: false })
let fired = 0
const random = (bytes: number) => {
  if (++fired === Number(at)) {
    writeSync(1, 'inside\n')
    process.kill(process.pid, 'SIGSTOP')
  }
  return machine.random(bytes)
}
const ended = tick({ store, machine: { ...machine, random } }, '60000').then(
  ({ executionsCreated }) => `fired ${executionsCreated}`,
  (error) => `failed: ${error.code}`,
)
writeSync(1, `${await ended}\n`)
await store.close()
