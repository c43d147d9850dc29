// `npm run faults`: a thousand rounds of kill -9 on the executable, each on the database that the one before left. The
// seed decides who is killed and after how long; what the machine makes of that is never the same twice.

import { machine } from '../../src/machine.ts'
import { optionsOrExit, runner, seedOption, wholeFrom } from '../support/runner.ts'
import { killRounds, sumOf, type Tally } from './kill/rounds.ts'

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

const tallies = new Map<string, Tally[]>()
const answered: Record<string, number> = {}
for (const end of ends) {
  if (end.status === 'rejected') {
    say(`FAILED: ${end.reason.message}`)
    process.exitCode = 1
    continue
  }
  for (const [name, tally] of end.value.tallies) tallies.set(name, [...(tallies.get(name) ?? []), tally])
  for (const [what, count] of Object.entries(end.value.answered))
    answered[what] = (answered[what] ?? 0) + count
}
for (const [name, those] of tallies) {
  const { rounds, killed, atWork } = sumOf(those)
  say(`${name.padEnd(16)} ${rounds} rounds, ${killed} killed, ${atWork} of them in the middle of a write`)
}
const list = Object.entries(answered).map(([what, count]) => `${count} ${what}`)
say(`answered: ${list.join(', ')}`)
const { killed, atWork } = sumOf([...tallies.values()].flat())
if (!process.exitCode && (killed === 0 || atWork === 0)) {
  say(`FAILED: ${killed} killed, ${atWork} of them in the middle of a write: that proves nothing`)
  process.exitCode = 1
} else say(process.exitCode ? 'something was lost' : `nothing was lost in ${done} rounds (${seconds()})`)
