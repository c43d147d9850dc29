// `npm run faults`: a thousand rounds of kill -9 on the executable, each on the database that the one before left. The
// seed decides who is killed and after how long; what the machine makes of that is never the same twice.

import { machine } from '../../src/machine.ts'
import { optionsOrExit, runner, seedOption, wholeFrom } from '../support/runner.ts'
import { killRounds } from './kill/rounds.ts'

const { rounds, seed, databases } = optionsOrExit((args) =>
  runner('faults', 'Kills the executable again and again, and looks for what was answered.')
    .option('--rounds <n>', 'how often', wholeFrom(1), 1_000)
    .option(
      '--databases <n>',
      'among how many the rounds are shared, worked on side by side',
      wholeFrom(1),
      2,
    )
    .addOption(seedOption('who is killed, and after how long').default(machine.clock() % 1_000_000))
    .parse(args, { from: 'user' })
    .opts<{ rounds: number; seed: number; databases: number }>(),
)
const say = (text: string) => process.stdout.write(`${text}\n`)

say(`${rounds} rounds on ${databases} databases, --seed ${seed}`)
const from = performance.now()
const seconds = () => `${Math.round((performance.now() - from) / 1_000)} s`
let done = 0
const onRound = (): void => {
  done += 1
  if (done % 100 === 0) say(`${done} rounds, ${seconds()}`)
}
const shares = Array.from({ length: databases }, (_, i) => Math.floor((rounds + i) / databases))
const ends = await Promise.allSettled(
  shares.map((share, i) => killRounds(share, { seed: seed + i, onRound })),
)

const total = new Map<string, { rounds: number; killed: number; atWork: number }>()
const answered: Record<string, number> = {}
for (const end of ends) {
  if (end.status === 'rejected') {
    say(`FAILED: ${end.reason.message}`)
    process.exitCode = 1
    continue
  }
  for (const [name, { rounds, killed, atWork }] of end.value.tallies) {
    const sum = total.get(name) ?? { rounds: 0, killed: 0, atWork: 0 }
    total.set(name, { rounds: sum.rounds + rounds, killed: sum.killed + killed, atWork: sum.atWork + atWork })
  }
  for (const [what, count] of Object.entries(end.value.answered))
    answered[what] = (answered[what] ?? 0) + count
}
for (const [name, sum] of total) {
  say(
    `${name.padEnd(16)} ${sum.rounds} rounds, ${sum.killed} killed, ${sum.atWork} of them in the middle of a write`,
  )
}
const list = Object.entries(answered).map(([what, count]) => `${count} ${what}`)
say(`answered: ${list.join(', ')}`)
say(process.exitCode ? 'something was lost' : `nothing was lost in ${done} rounds (${seconds()})`)
