// `npm run faults`: a thousand rounds of kill -9 on the executable, each on the database that the previous one left, or
// of strikes at a database on servers that many hosts share. The seed decides the victim and the delay; the machine's
// timing differs every time. With --power, the possible disks after a power cut are checked.

import { Option } from 'commander'
import { machine } from '../../src/machine.ts'
import { optionsOrExit, runner, seedOption, wholeFrom } from '../support/runner.ts'
import { isMissing } from '../support/tools.ts'
import { hostRounds } from './hosts/rounds.ts'
import { killRounds, sumOf } from './kill/rounds.ts'
import { powerCuts } from './power/rounds.ts'

type Options = {
  store: 'sqlite' | 'postgres'
  rounds: number
  seed: number
  databases: number
  power: boolean
  images: number
}

const { store, rounds, seed, databases, power, images } = optionsOrExit((args) =>
  runner('faults', 'Kills the executable again and again, and looks for what was answered.')
    .addOption(
      new Option('--store <name>', 'sqlite: commands on a file; postgres: many hosts on two servers')
        .choices(['sqlite', 'postgres'])
        .default('sqlite'),
    )
    .option('--rounds <n>', 'how often', wholeFrom(1), 1_000)
    .option(
      '--databases <n>',
      'among how many the rounds are shared, worked on side by side',
      wholeFrom(1),
      2,
    )
    .option('--power', 'cuts the power instead, and looks at what the disk may hold then')
    .option('--images <n>', 'with --power: how many such disks', wholeFrom(1), 500)
    .addOption(seedOption('who is killed, and after how long').default(machine.clock() % 1_000_000))
    .parse(args, { from: 'user' })
    .opts<Options>(),
)
const say = (text: string) => process.stdout.write(`${text}\n`)
const from = performance.now()
const seconds = () => `${Math.round((performance.now() - from) / 1_000)} s`
let done = 0
/** An interrupted run still prints its results so far. */
let interrupted = false
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.on(signal, () => {
    interrupted = true
  })
const onRound = (): void => {
  done += 1
  if (done % 100 === 0) say(`${done} done, ${seconds()}`)
}
function failed(why: string): void {
  say(`FAILED: ${why}`)
  process.exitCode = 1
}

if (power) say(`${images} images, --power --seed ${seed}`)
else say(`${rounds} rounds on ${databases} databases, --store ${store} --seed ${seed}`)
await (power ? onImages() : store === 'sqlite' ? onFiles() : onServers())
const unit = power ? 'images' : 'rounds'
say(process.exitCode ? 'something was lost' : `nothing was lost in ${done} ${unit} (${seconds()})`)

type Own = { seed: number; onRound: () => void; isOver: () => boolean }

/** Shares the rounds among the databases; answers the results of those that did not fail. */
async function shared<T>(work: (share: number, own: Own) => Promise<T>): Promise<T[]> {
  const shares = Array.from({ length: databases }, (_, i) => Math.floor((rounds + i) / databases))
  const own = { onRound, isOver: () => interrupted }
  const ends = await Promise.allSettled(
    shares.map((share, i) =>
      work(share, { ...own, seed: seed + i }).catch((error) => {
        failed(error.message)
        throw error
      }),
    ),
  )
  return ends.flatMap((end) => (end.status === 'fulfilled' ? [end.value] : []))
}

async function onImages(): Promise<void> {
  if (isMissing('cc')) {
    say('NOT TESTED: cc is not installed')
    if (process.env.CI) process.exitCode = 1
    return
  }
  const { counts, failures } = await powerCuts(images, { seed, onImage: onRound, isOver: () => interrupted })
  for (const [name, count] of counts) say(`${name.padEnd(32)} ${count} images`)
  for (const why of failures) failed(why)
}

async function onFiles(): Promise<void> {
  const ends = await shared(killRounds)
  const tallies = byName(ends)
  for (const [name, those] of tallies) {
    const { rounds, killed, atWork } = sumOf(those)
    say(`${name.padEnd(16)} ${rounds} rounds, ${killed} killed, ${atWork} of them in the middle of a write`)
  }
  sayAnswered(ends)
  const { killed, atWork } = sumOf([...tallies.values()].flat())
  if (!process.exitCode && (killed === 0 || atWork === 0))
    failed(`${killed} killed, ${atWork} of them in the middle of a write: that proves nothing`)
}

async function onServers(): Promise<void> {
  const ends = await shared(hostRounds)
  let struck = 0
  for (const [name, those] of byName(ends)) {
    const sum = (of: keyof (typeof those)[number]) => those.reduce((total, tally) => total + tally[of], 0)
    struck += sum('atWork')
    say(
      `${name.padEnd(16)} ${sum('rounds')} rounds, ${sum('atWork')} in the middle of work, ${sum('answersLost')} calls without an outcome`,
    )
  }
  const answered = sayAnswered(ends)
  if (!process.exitCode && (struck === 0 || !answered.confirmations))
    failed('nothing was struck in the middle of its work, or nothing confirmed: that proves nothing')
}

function byName<T>(ends: readonly { tallies: Map<string, T> }[]): Map<string, T[]> {
  const all = ends.flatMap(({ tallies }) => [...tallies])
  const named = Map.groupBy(all, ([name]) => name)
  return new Map([...named].map(([name, those]) => [name, those.map(([, tally]) => tally)]))
}

function sayAnswered(ends: readonly { answered: Record<string, number> }[]): Record<string, number> {
  const sums: Record<string, number> = {}
  for (const { answered } of ends)
    for (const [what, count] of Object.entries(answered)) sums[what] = (sums[what] ?? 0) + count
  const list = Object.entries(sums).map(([what, count]) => `${count} ${what}`)
  say(`answered: ${list.join(', ')}`)
  return sums
}
