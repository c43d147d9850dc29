// Plants one bug after the other and runs the tests that have to find each: `npm run planted -- lease`.
//
// Exits 1 when a bug survives, when its text is not in the program any more, or when it only breaks the program.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Option } from 'commander'
import { minutes, optionsOrExit, runner } from '../support/runner.ts'
import { FINDERS, type FinderName, planted, ROWS, type Row, sourcesOf } from './rows.ts'
import { CONTRACT, copyTree, runNode, STILLBORN } from './tree.ts'

/** The simulator ends a little before its limit, so that it can report its findings. */
const SIMULATED = 0.9
const LIMIT_MS = 60_000
/** A run without a bug may start servers, and copy databases many times. */
const SOUND_LIMIT_MS = 15 * LIMIT_MS
/** The time factor over a run without a bug: a machine may be busy with other work. */
const SLOWER = 3

/** The line of a found bug: a test that fails, unless its file did not even load, or a life that fails. */
const FINDING = /^ *not ok \d+ - (?!\S*\.test\.ts$).*$|^SEED=\d+ fails.*$/m
/** A finding with its details: the rest of a run would add nothing. */
const WHOLE_FINDING = /^( *)not ok \d+ - (?!\S*\.test\.ts$).*\n\1 {2}---\n[\s\S]*?\n\1 {2}\.\.\.$/m

const { rows, limitMs } = optionsOrExit(optionsOf)
const TESTS = ['--import', 'tsx', '--test', '--test-reporter=tap']
const ARGS: Record<FinderName, readonly string[]> = {
  contract: [...TESTS, CONTRACT.sqlite],
  // Tests that start no executable, which would have to be rebuilt for every bug.
  copy: [...TESTS, 'test/copy/copy.server.test.ts', 'test/copy/stops.server.test.ts'],
  simulate: [
    ...['--import', 'tsx', 'test/simulation/simulate.ts', '--no-shrink'],
    ...['--minutes', String((SIMULATED * limitMs) / 60_000)],
  ],
}

const say = (line: string) => process.stdout.write(`${line}\n`)
const tree = copyTree()
const sources = sourcesOf(tree)
// Before the search begins, this verifies that all are in the program.
const bugs = rows.map((row) => ({ ...row, ...planted(row, sources) }))

let found = 0
for (const finder of FINDERS) {
  const ofFinder = bugs.filter(({ by }) => by === finder)
  if (ofFinder.length === 0) continue
  // A failing run without a bug would prove nothing. Its duration sets the time limit of each search.
  const begun = performance.now()
  const sound = await runNode(tree, ARGS[finder], SOUND_LIMIT_MS)
  if (sound.code !== 0) {
    say(`${sound.output}\n${finder} fails without a planted bug: it proves nothing`)
    process.exit(1)
  }
  const mayTakeMs = Math.max(limitMs, SLOWER * (performance.now() - begun))
  for (const bug of ofFinder) {
    const from = performance.now()
    const verdict = await hunt(bug, mayTakeMs)
    if (verdict.startsWith('found')) found += 1
    say(`${bug.name.padEnd(40)} ${((performance.now() - from) / 1000).toFixed(0).padStart(3)} s  ${verdict}`)
  }
}
say(`${found} of ${bugs.length} found`)
process.exitCode = found === bugs.length ? 0 : 1

/** Throws a CommanderError that names the mistake. */
function optionsOf(args: readonly string[]): { rows: Row[]; limitMs: number } {
  const command = runner('planted', 'Plants one bug after the other, and fails when one is not found.')
    .argument('[words...]', 'only bugs with one of these in their names, such as lease')
    .addOption(new Option('--by <finder>', 'only bugs that this one has to find').choices(FINDERS))
    .option('--minutes <n>', 'how long the simulator looks for a bug', minutes, 1)
    .parse(args, { from: 'user' })
  const options = command.opts<{ by?: FinderName; minutes: number }>()
  const rows = ROWS.filter(
    ({ name, by }) =>
      (options.by ?? by) === by &&
      (command.args.length === 0 || command.args.some((word) => name.includes(word))),
  )
  if (rows.length === 0) command.error('no bug is called that')
  return { rows, limitMs: options.minutes * 60_000 }
}

async function hunt(
  { by, file, text }: { by: FinderName; file: string; text: string },
  mayTakeMs: number,
): Promise<string> {
  writeFileSync(join(tree, file), text)
  const run = await runNode(tree, ARGS[by], mayTakeMs, (output) => WHOLE_FINDING.test(output))
  writeFileSync(join(tree, file), sources.get(file) ?? '')
  if (run.code === 0 || run.timedOut) return 'SURVIVED'
  const finding = FINDING.exec(run.output)?.[0].trim()
  const stillborn = STILLBORN.exec(run.output)?.[0].trim()
  if (stillborn === undefined && finding !== undefined) return `found  ${finding}`
  return `BROKEN  ${stillborn ?? run.output.trim().split('\n').at(-1)}`
}
