// `npm run fuzz`: SEED=n, and --requests N or --minutes N. Prints its seed first, and what it found last.

import { parseArgs } from 'node:util'
import { machine } from '../../src/machine.ts'
import { fuzz } from './fuzz.ts'

const { values } = parseArgs({ options: { requests: { type: 'string' }, minutes: { type: 'string' } } })
const seed = Number(process.env.SEED ?? Buffer.from(machine.random(4)).readUInt32BE())
const endings: (() => Promise<void> | void)[] = []
const say = (text: string): void => void process.stdout.write(`${text}\n`)
const MIB = 1024 * 1024

say(`SEED=${seed}`)
try {
  const report = await fuzz(
    { after: (end) => void endings.push(end) },
    {
      seed,
      requests: Number(values.requests ?? Number.POSITIVE_INFINITY),
      minutes: Number(values.minutes ?? (values.requests ? Number.POSITIVE_INFINITY : 1)),
      onProgress({ requests, seconds, samples }) {
        if (requests % 10_000 > 0) return
        const { residentBytes = 0, fileBytes = 0 } = samples.at(-1) ?? {}
        say(
          `${requests} in ${seconds.toFixed(0)} s: ${(residentBytes / MIB).toFixed(1)} MiB of memory, ${(fileBytes / MIB).toFixed(1)} MiB of file`,
        )
      },
    },
  )
  say(`${report.requests} requests in ${report.seconds.toFixed(0)} s`)
  for (const [operation, counts] of Object.entries(report.answers))
    say(
      `${operation.padEnd(22)}${Object.entries(counts)
        .map(([status, count]) => `${status}: ${count}`)
        .join('  ')}`,
    )
} catch (error) {
  say(error instanceof Error ? error.message : String(error))
  process.exitCode = 1
} finally {
  for (const end of endings.reverse()) await end()
}
