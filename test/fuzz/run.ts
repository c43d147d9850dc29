// `npm run fuzz`. Prints its seed first and the answers last; fails on an answer that is not allowed.

import assert from 'node:assert/strict'
import { Option } from 'commander'
import { machine } from '../../src/machine.ts'
import { minutes, optionsOrExit, runner, seedOption, wholeFrom } from '../support/runner.ts'
import { type FuzzReport, fuzz, neverSucceeded } from './fuzz.ts'

/** In so many requests every operation has succeeded. */
const MANY = 10_000
const { seed, ...limit } = optionsOrExit((args) =>
  runner('fuzz', 'Sends the executable requests that are made up, and broken ones.')
    .option('--minutes <n>', 'how long (default: 1)', minutes)
    .addOption(new Option('--requests <n>', 'how many').argParser(wholeFrom(1)).conflicts('minutes'))
    .addOption(
      seedOption('plays that run again').default(Buffer.from(machine.random(4)).readUInt32BE(), 'any'),
    )
    .parse(args, { from: 'user' })
    .opts<{ seed: number; requests?: number; minutes?: number }>(),
)
const ENDLESS = Number.POSITIVE_INFINITY
const { requests = ENDLESS, minutes: time = requests === ENDLESS ? 1 : ENDLESS } = limit
const endings: (() => Promise<void> | void)[] = []
const say = (text: string): void => void process.stdout.write(`${text}\n`)

say(`SEED=${seed}`)
try {
  const ending = { after: (end: () => Promise<void> | void) => void endings.push(end) }
  sumUp(await fuzz(ending, { seed, requests, minutes: time, onProgress }))
} catch (error) {
  say(error instanceof Error ? error.message : String(error))
  process.exitCode = 1
} finally {
  for (const end of endings.reverse()) await end()
}

function onProgress({ requests, seconds }: FuzzReport): void {
  say(`${requests} in ${seconds.toFixed(0)} s`)
}

function sumUp(report: FuzzReport): void {
  const { requests, seconds, answers } = report
  for (const [operation, counts] of Object.entries(answers)) {
    const counted = Object.entries(counts).map(([status, count]) => `${status}: ${count}`)
    say(`${operation.padEnd(20)} ${counted.join('  ')}`)
  }
  if (requests >= MANY) assert.deepEqual(neverSucceeded(report), [], 'every operation has succeeded')
  say(`${requests} requests in ${seconds.toFixed(0)} s: all answered as they may be, and the ledger adds up`)
}
