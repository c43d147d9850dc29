// Plants one bug after the other and sends a finder after each: `npm run contract:mutants`, `npm run simulate:mutants`.
//
// A NAME behind it is a part of the name of a bug in test/mutants/bugs/, such as lease. Exits 1 when a bug survives,
// when its text is not in the program any more, or when it only breaks the program.

import { minutes, optionsOrExit, runner } from '../support/runner.ts'
import {
  FINDERS,
  type Finder,
  type FinderName,
  isTold,
  judge,
  type Run,
  type Store,
  type Verdict,
} from './finders.ts'
import { plant, type Row, rowsFor, shownOn } from './rows.ts'
import { copyTree, runNode } from './tree.ts'

/** A bug may leave a name that nobody uses any more. */
const COMPILER = [
  'node_modules/typescript/bin/tsc',
  ...['--noUnusedLocals', '--noUnusedParameters'].flatMap((option) => [option, 'false']),
]
const COMPILER_LIMIT_MS = 300_000
/**
 * How much longer than without a bug: the compiler runs beside it, and a machine is busy with other things at times.
 */
const SLOWER = 3

const { name, finder, rows, limitMs } = optionsOrExit(optionsOf)

const say = (line: string) => process.stdout.write(`${line}\n`)
const seconds = (sinceMs: number) => ((performance.now() - sinceMs) / 1000).toFixed(1).padStart(5)
const tree = copyTree()

// What fails without a bug finds none. How long it takes says how long a bug may be looked for at least.
const argsOf = (store: Store) => finder.args(store, limitMs)
const limits = new Map<string, number>()
for (const store of new Set(rows.map(shownOn))) {
  // Some look for every bug alike.
  if (limits.has(argsOf(store).join())) continue
  const begun = performance.now()
  const sound = await runNode(tree, argsOf(store), SLOWER * limitMs)
  if (sound.code !== 0) {
    say(sound.output)
    say(`${name} fails on ${store} without a planted bug: it proves nothing`)
    process.exit(1)
  }
  limits.set(argsOf(store).join(), Math.max(limitMs, SLOWER * (performance.now() - begun)))
  say(`${`without a bug, on ${store}`.padEnd(44)} passed   ${seconds(begun)} s`)
}

const WORDS = { found: 'found   ', survived: 'SURVIVED', broken: 'BROKEN  ' }
const counts = { found: 0, survived: 0, broken: 0 }
for (const row of rows) {
  const from = performance.now()
  const { kind, first } = await hunt(row, finder)
  counts[kind] += 1
  say(`${row.name.padEnd(44)} ${WORDS[kind]} ${seconds(from)} s  ${first}`)
}
say(`${counts.found} of ${rows.length} found, ${counts.survived} survived, ${counts.broken} broken`)
process.exitCode = counts.found === rows.length ? 0 : 1

/** Throws a CommanderError that says what is wrong. The finder comes from the script of package.json. */
function optionsOf([name = '', ...args]: readonly string[]) {
  const command = runner(
    `${name}:mutants`,
    'Plants one bug after the other, and fails when one is not found.',
  )
    .argument('[names...]', 'only bugs with this in their names, such as lease')
    .option(
      '--minutes <n>',
      'how long each may be looked for, or longer where a sound run takes long',
      minutes,
    )
    .parse(args, { from: 'user' })
  if (!isFinder(name)) throw command.error(`name a finder: ${Object.keys(FINDERS).join(' or ')}`)
  const rows = rowsFor(name).filter(
    (row) => command.args.length === 0 || command.args.some((part) => row.name.includes(part)),
  )
  if (rows.length === 0) command.error('no bug is called that')
  const { minutes: given } = command.opts()
  const finder = FINDERS[name]
  return { name, finder, rows, limitMs: given === undefined ? finder.limitMs : given * 60_000 }
}

async function hunt(row: Row, finder: Finder): Promise<Verdict> {
  const args = argsOf(shownOn(row))
  const takeBack = planting(row)
  if (typeof takeBack === 'string') return { kind: 'broken', first: takeBack }
  const [types, run] = await Promise.all([
    runNode(tree, COMPILER, COMPILER_LIMIT_MS),
    runNode(tree, args, limits.get(args.join()) ?? limitMs, (output) => isTold(finder, output)),
  ])
  takeBack()
  return judge(finder, run, typeErrors(types))
}

/** Plants a bug and returns what takes it back, or why it cannot be planted. */
function planting(row: Row): (() => void) | string {
  try {
    return plant(row, tree)
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

function typeErrors({ code, output }: Run): string | null {
  return code === 0 ? null : output.split('\n')[0] || 'the compiler failed'
}

function isFinder(name: string): name is FinderName {
  return name in FINDERS
}
