// `npm run faults`: a thousand rounds of kill -9 on the executable, each on the database that the one before left, or of
// strikes at a database on servers that many hosts share. The seed decides who is struck and after how long; what the
// machine makes of that is never the same twice.

import { Option } from 'commander'
import { machine } from '../../src/machine.ts'
import { optionsOrExit, runner, seedOption, wholeFrom } from '../support/runner.ts'
import { hostRounds } from './hosts/rounds.ts'
import { killRounds, sumOf, type Tally } from './kill/rounds.ts'

type Options = { store: 'sqlite' | 'postgres'; rounds: number; seed: number; databases: number }

const { store, rounds, seed, databases } = optionsOrExit((args) =>
  runner('faults', 'Kills the executable again and again, and looks for what was answered.')
    .addOption(
      new Option('--store <name>', 'sqlite: commands on a file; postgres: many hosts on two servers')
        .choices(['sqlite', 'postgres'])
        .default('sqlite'),
    )
    .option('--rounds <n>', 'how often', wholeFrom(1), 1_000)
    .option(
      '--databases <n>',
      'with sqlite, among how many the rounds are shared, worked on side by side',
      wholeFrom(1),
      2,
    )
    .addOption(seedOption('who is killed, and after how long').default(machine.clock() % 1_000_000))
    .parse(args, { from: 'user' })
    .opts<Options>(),
)
const say = (text: string) => process.stdout.write(`${text}\n`)
const from = performance.now()
const seconds = () => `${Math.round((performance.now() - from) / 1_000)} s`
let done = 0
const onRound = (): void => {
  done += 1
  if (done % 100 === 0) say(`${done} rounds, ${seconds()}`)
}
const sayAnswered = (answered: Record<string, number>) =>
  say(
    `answered: ${Object.entries(answered)
      .map(([what, count]) => `${count} ${what}`)
      .join(', ')}`,
  )

function failed(why: string): void {
  say(`FAILED: ${why}`)
  process.exitCode = 1
}

await (store === 'sqlite' ? onFiles() : onServers())
say(process.exitCode ? 'something was lost' : `nothing was lost in ${done} rounds (${seconds()})`)

async function onFiles(): Promise<void> {
  say(`${rounds} rounds on ${databases} databases, --seed ${seed}`)
  const shares = Array.from({ length: databases }, (_, i) => Math.floor((rounds + i) / databases))
  const ends = await Promise.allSettled(
    shares.map((share, i) => killRounds(share, { seed: seed + i, onRound })),
  )
  const tallies = new Map<string, Tally[]>()
  const answered: Record<string, number> = {}
  for (const end of ends) {
    if (end.status === 'rejected') {
      failed(end.reason.message)
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
  sayAnswered(answered)
  const { killed, atWork } = sumOf([...tallies.values()].flat())
  if (!process.exitCode && (killed === 0 || atWork === 0))
    failed(`${killed} killed, ${atWork} of them in the middle of a write: that proves nothing`)
}

async function onServers(): Promise<void> {
  say(`${rounds} rounds on a primary and its standby, --store postgres --seed ${seed}`)
  try {
    const { tallies, answered } = await hostRounds(rounds, { seed, onRound })
    for (const [name, { rounds, atWork, answersLost }] of tallies)
      say(`${name.padEnd(16)} ${rounds} rounds, ${atWork} in the middle of work, ${answersLost} answers lost`)
    sayAnswered(answered)
    const atWork = [...tallies.values()].reduce((sum, tally) => sum + tally.atWork, 0)
    if (atWork === 0 || !answered['acknowledged confirmations'])
      failed('nothing was struck in the middle of its work, or nothing confirmed: that proves nothing')
  } catch (error) {
    failed((error as Error).message)
  }
}
