// npm run simulate: lives seeds until time is up, in as many processes as the machine has cores; prints the failures.

import { fork } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { ourServer } from '../support/postgres-server.ts'
import { optionsOrExit } from '../support/runner.ts'
import { scratch } from '../support/samples.ts'
import { addCrashes, noCrashes } from './crash/crashing-life.ts'
import { FIXED_LIVES, LIVES_PER_CRASHING, type Life, optionsOf } from './options.ts'
import type { Finished, Task } from './worker.ts'

const say = (text: string) => process.stdout.write(`${text}\n`)
const complain = (text: string) => process.stderr.write(`${text}\n`)

const options = optionsOrExit(optionsOf)
// The server's folder lies there too.
process.env.TMPDIR = scratch()
// A single server for all workers. It ends with this process.
const server = options.store === 'sqlite' ? null : (await ourServer()).url('postgres')
const workers = options.seed === null ? availableParallelism() : 1
const total = { lives: 0, answers: 0, partnerDays: 0, executions: 0, trades: 0 }
const crashed = noCrashes()
const fresh: number[] = []
const begun = performance.now()
let failed = false
let drawn = 0

const WHERE = { sqlite: '', postgres: ' on PostgreSQL', both: ' on both stores' }

await Promise.all(Array.from({ length: workers }, employ))
report()
process.exitCode = failed ? 1 : 0

/** The next life, or null when there is none. */
function nextTask(): Task | null {
  const { seed: only, minutes, crashes, shrinks, steps, store } = options
  const msLeft = only === null ? begun + minutes * 60_000 - performance.now() : Number.POSITIVE_INFINITY
  if (failed || msLeft <= 0 || (only !== null && drawn > 0)) return null
  drawn += 1
  const { seed, isCrashing } =
    only === null ? (FIXED_LIVES[drawn - 1] ?? freshLife()) : { seed: only, isCrashing: false }
  return { seed, steps, isCrashing: crashes ?? isCrashing, shrinks, msLeft, store, server }
}

function freshLife(): Life {
  const seed = randomInt(2 ** 32)
  fresh.push(seed)
  return { seed, isCrashing: fresh.length % LIVES_PER_CRASHING === 0 }
}

/** A process that lives one seed after the other. */
function employ(): Promise<void> {
  const child = fork(new URL('./worker.ts', import.meta.url), { serialization: 'advanced' })
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
  const { lived, crashes } = finished
  total.lives += 1
  addCrashes(crashed, crashes)
  for (const name of ['answers', 'partnerDays', 'executions', 'trades'] as const) total[name] += lived[name]
}

function complainOf(failed: Extract<Finished, { failure: string }>): void {
  const { seed, failure, trace, isCrashing, isShrunk } = failed
  complain(`\nSEED=${seed} fails${isCrashing ? ', with crashes' : ''}: ${failure}\n`)
  complain(isShrunk ? `${trace.length} actions are enough:` : `All ${trace.length} actions until then:`)
  for (const action of trace) complain(`  ${JSON.stringify(action)}`)
  const again = [
    options.store === 'sqlite' ? '' : ` --store ${options.store}`,
    isCrashing ? ' --crashes' : '',
  ].join('')
  complain(`\nSEED=${seed} npm run simulate${again === '' ? '' : ` --${again}`} plays it again.`)
}

function report(): void {
  const seconds = Math.round((performance.now() - begun) / 1_000)
  const said = [
    `${total.lives} lives${WHERE[options.store]}`,
    `${total.partnerDays} partner-days`,
    `${total.executions} executions`,
    `${total.trades} trades`,
    `${total.answers} answers held against the model`,
    `${crashed.all} crashes (${crashed.afterCommit} after a commit, ${crashed.afterFiring} after a tranche had fired)`,
    ...(options.store === 'postgres'
      ? [
          `${crashed.severed} connections ended (${crashed.inCommit} before the answer to a commit, ${crashed.failed} with a pass)`,
        ]
      : []),
  ]
  if (fresh.length > 0) say(`Fresh seeds: ${fresh.join(' ')}`)
  say(`${said.join(', ')}; ${seconds} s`)
}
