// npm run simulate: lives seeds until time is up, in as many processes as the machine has cores, and prints what fails.
//
//   SEED=n      that seed alone, without crashes unless CRASHES=1
//   STEPS=n     so many steps of each seed
//   --minutes N how long; one minute by default
//   --store S   which store (sqlite)
//   --no-shrink prints the whole trace of what fails, at once
//   --crashes   only lives in which the process is killed; --no-crashes none of them

import { fork } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { parseArgs } from 'node:util'
import { scratch } from '../support/scratch.ts'
import type { Finished, Task } from './worker.ts'

/** Lived first in every run: what they found once stays found. */
const FIXED_SEEDS = [20_260_105, 5, 33, 1_000_003, 77_777]
/** One life in so many is one of crashes: each kill costs the start of a process. */
const LIVES_PER_CRASHING = 12

const say = (text: string) => process.stdout.write(`${text}\n`)
const complain = (text: string) => process.stderr.write(`${text}\n`)

const { values: options } = parseArgs({
  options: {
    minutes: { type: 'string', default: '1' },
    store: { type: 'string', default: 'sqlite' },
    crashes: { type: 'boolean' },
    'no-crashes': { type: 'boolean' },
    'no-shrink': { type: 'boolean', default: false },
  },
})
const minutes = Number(options.minutes)
if (!(minutes > 0)) fail('--minutes is a number above 0')
if (options.store !== 'sqlite') fail(`--store ${options.store}: the only store there is so far is sqlite`)
const steps = process.env.STEPS === undefined ? null : wholeNumber('STEPS', process.env.STEPS)
const only = process.env.SEED === undefined ? null : wholeNumber('SEED', process.env.SEED)

const total = { lives: 0, answers: 0, partnerDays: 0, executions: 0, trades: 0, crashes: 0 }
const quiet = { partnerDays: 0, ms: 0 }
const begun = performance.now()
const until = begun + minutes * 60_000
let failed = false
let drawn = 0

/** The next life to be lived, or null when there is none. */
function nextTask(): Task | null {
  if (failed || (drawn > 0 && only !== null)) return null
  if (only === null && performance.now() >= until) return null
  const place = drawn++
  const isCrashing =
    options.crashes ?? (!options['no-crashes'] && only === null && place % LIVES_PER_CRASHING === 1)
  return {
    seed: only ?? FIXED_SEEDS[place] ?? randomInt(2 ** 32),
    steps,
    isCrashing,
    shrinks: !options['no-shrink'],
  }
}

const workers = only === null ? availableParallelism() : 1
await Promise.all(Array.from({ length: workers }, employ))
report()
process.exitCode = failed ? 1 : 0

/** A process that lives one seed after the other. */
function employ(): Promise<void> {
  const env = { ...process.env, TMPDIR: scratch() }
  const child = fork(new URL('./worker.ts', import.meta.url), { serialization: 'advanced', env })
  const next = () => {
    const task = nextTask()
    if (task) child.send(task)
    else child.disconnect()
  }
  child.on('message', (finished: Finished) => {
    note(finished)
    next()
  })
  next()
  return new Promise((resolve) => {
    child.on('exit', (code, signal) => {
      if (code !== 0) {
        failed = true
        complain(`a process of the simulation ended with ${signal ?? code}`)
      }
      resolve()
    })
  })
}

function note(finished: Finished): void {
  if ('failure' in finished) {
    failed = true
    const { seed, failure, trace, isCrashing } = finished
    complain(`\nSEED=${seed} fails${isCrashing ? ', with crashes' : ''}: ${failure}\n`)
    complain(`${trace.length} actions are enough:`)
    for (const action of trace) complain(`  ${JSON.stringify(action)}`)
    complain(`\nSEED=${seed} npm run simulate${isCrashing ? ' -- --crashes' : ''} plays it again.`)
    return
  }
  const { lived, ms, crashes } = finished
  total.lives += 1
  total.crashes += crashes
  for (const name of ['answers', 'partnerDays', 'executions', 'trades'] as const) total[name] += lived[name]
  if (crashes > 0) return
  quiet.partnerDays += lived.partnerDays
  quiet.ms += ms
}

function report(): void {
  const seconds = Math.round((performance.now() - begun) / 1_000)
  const rate = Math.round((quiet.partnerDays * 1_000 * workers) / Math.max(1, quiet.ms))
  const said = [
    `${total.lives} lives`,
    `${total.partnerDays} partner-days`,
    `${total.executions} executions`,
    `${total.trades} trades`,
    `${total.answers} answers held against the model`,
    `${total.crashes} crashes`,
  ]
  say(`${said.join(', ')}; ${seconds} s, ${rate} partner-days a second without crashes`)
}

function wholeNumber(name: string, text: string): number {
  if (!/^\d{1,10}$/.test(text)) fail(`${name} is a whole number`)
  return Number(text)
}

function fail(message: string): never {
  complain(message)
  process.exit(2)
}
