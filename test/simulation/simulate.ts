// npm run simulate: lives seeds until time is up, in as many processes as the machine has cores, and prints what fails.

import { fork } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { optionsOrExit } from '../support/runner.ts'
import { scratch } from '../support/scratch.ts'
import { addCrashes, noCrashes } from './crash/crashes.ts'
import { LIVES_PER_CRASHING, optionsOf } from './options.ts'
import type { Finished, Task } from './worker.ts'

/** Lived first in every run: what they found once stays found. */
const FIXED_SEEDS = [
  20_260_105, 1_000_003, 33, 2_425_635_902, 476_163_319, 3_977_995_620, 2_254_654_918, 374_376_334,
  3_500_858_092,
]

const say = (text: string) => process.stdout.write(`${text}\n`)
const complain = (text: string) => process.stderr.write(`${text}\n`)

const options = optionsOrExit(optionsOf)
const workers = options.seed === null ? availableParallelism() : 1
const total = { lives: 0, answers: 0, partnerDays: 0, executions: 0, trades: 0 }
const crashed = noCrashes()
const withoutCrashes = { partnerDays: 0, ms: 0 }
const fresh: number[] = []
const begun = performance.now()
let failed = false
let drawn = 0

await Promise.all(Array.from({ length: workers }, employ))
report()
process.exitCode = failed ? 1 : 0

/** The next life to be lived, or null when there is none. */
function nextTask(): Task | null {
  const { seed: only, minutes, crashes, shrinks, steps } = options
  const isOver = only === null ? performance.now() - begun >= minutes * 60_000 : drawn > 0
  if (failed || isOver) return null
  const place = drawn++
  const seed = only ?? FIXED_SEEDS[place] ?? randomInt(2 ** 32)
  if (only === null && place >= FIXED_SEEDS.length) fresh.push(seed)
  return { seed, steps, isCrashing: crashes ?? place % LIVES_PER_CRASHING === 1, shrinks }
}

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
    complainOf(finished)
    return
  }
  const { lived, ms, crashes } = finished
  total.lives += 1
  addCrashes(crashed, crashes)
  for (const name of ['answers', 'partnerDays', 'executions', 'trades'] as const) total[name] += lived[name]
  if (crashes.all > 0) return
  withoutCrashes.partnerDays += lived.partnerDays
  withoutCrashes.ms += ms
}

function complainOf({ seed, failure, trace, isCrashing }: Extract<Finished, { failure: string }>): void {
  complain(`\nSEED=${seed} fails${isCrashing ? ', with crashes' : ''}: ${failure}\n`)
  complain(`${trace.length} actions are enough:`)
  for (const action of trace) complain(`  ${JSON.stringify(action)}`)
  complain(`\nSEED=${seed} npm run simulate${isCrashing ? ' -- --crashes' : ''} plays it again.`)
}

function report(): void {
  const seconds = Math.round((performance.now() - begun) / 1_000)
  const rate = Math.round((withoutCrashes.partnerDays * 1_000 * workers) / Math.max(1, withoutCrashes.ms))
  const said = [
    `${total.lives} lives`,
    `${total.partnerDays} partner-days`,
    `${total.executions} executions`,
    `${total.trades} trades`,
    `${total.answers} answers held against the model`,
    `${crashed.all} crashes (${crashed.afterCommit} after a commit, ${crashed.afterFiring} after a tranche had fired)`,
  ]
  if (fresh.length > 0) say(`Fresh seeds: ${fresh.join(' ')}`)
  say(`${said.join(', ')}; ${seconds} s, ${rate} partner-days a second without crashes`)
}
