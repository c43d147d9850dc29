// A process that takes a hand in a pass and stops forever at the third tranche it fires, inside its first page, or at
// another one.

import { writeSync } from 'node:fs'
import { machineAt } from '../../src/machine.ts'
import { openStore } from '../../src/store/postgres/open.ts'
import { T0, tick } from './world.ts'

const { machine } = machineAt(T0)
const store = await openStore(process.argv[2] ?? '', { clock: machine.clock, create: false })
let fired = 0
const random = (bytes: number) => {
  if (++fired === Number(process.argv[3] ?? 3)) {
    writeSync(1, 'inside\n')
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
  }
  return machine.random(bytes)
}
await tick({ store, machine: { ...machine, random } }, '60000')
