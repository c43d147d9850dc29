// Plants one bug after the other and sends a finder after each: `npm run contract:mutants`, `npm run simulate:mutants`.
//
// A NAME behind it is the start of a patch's name in test/mutants/FINDER, such as 07. Exits 1 when a bug survives, when
// its patch does not apply any more, or when it only breaks the program.

import { minutes, optionsOrExit, runner } from '../support/runner.ts'
import { FINDERS, type Finder, isTold, judge, type Run, type Store, type Verdict } from './finders.ts'
import { apply, type Mutant, mutantsOf, storeOf } from './patches.ts'
import { copyTree, runNode } from './tree.ts'

const COMPILER_LIMIT_MS = 300_000
/**
 * How much longer than without a bug: the compiler runs beside it, and a machine is busy with other things at times.
 */
const SLOWER = 3

const { name, finder, mutants, limitMs } = optionsOrExit(optionsOf)

const say = (line: string) => process.stdout.write(`${line}\n`)
const seconds = (sinceMs: number) => ((performance.now() - sinceMs) / 1000).toFixed(1).padStart(5)
const tree = copyTree()

// What fails without a bug finds none. How long it takes says how long a bug may be looked for at least.
const argsOf = (store: Store) => finder.args(store, limitMs)
const limits = new Map<string, number>()
for (const store of new Set(mutants.map(storeOf))) {
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
for (const mutant of mutants) {
  const from = performance.now()
  const { kind, first } = await hunt(mutant, finder)
  counts[kind] += 1
  say(`${mutant.name.padEnd(44)} ${WORDS[kind]} ${seconds(from)} s  ${first}`)
}
say(`${counts.found} of ${mutants.length} found, ${counts.survived} survived, ${counts.broken} broken`)
process.exitCode = counts.found === mutants.length ? 0 : 1

/** Throws a CommanderError that says what is wrong. The finder comes from the script of package.json. */
function optionsOf([name = '', ...args]: readonly string[]) {
  const command = runner(
    `${name}:mutants`,
    'Plants one bug after the other, and fails when one is not found.',
  )
    .argument('[names...]', 'only patches whose names begin so, such as 07')
    .option(
      '--minutes <n>',
      'how long each may be looked for, or longer where a sound run takes long',
      minutes,
    )
    .parse(args, { from: 'user' })
  const finder = FINDERS[name] ?? command.error(`name a finder: ${Object.keys(FINDERS).join(' or ')}`)
  const mutants = mutantsOf(name).filter(
    (mutant) => command.args.length === 0 || command.args.some((one) => mutant.name.startsWith(one)),
  )
  if (mutants.length === 0) command.error(`test/mutants/${name} has no such patch`)
  const { minutes: given } = command.opts()
  return { name, finder, mutants, limitMs: given === undefined ? finder.limitMs : given * 60_000 }
}

async function hunt(mutant: Mutant, finder: Finder): Promise<Verdict> {
  const refused = apply(mutant, tree)
  if (refused !== null) return { kind: 'broken', first: refused }
  const store = storeOf(mutant)
  const compiling = runNode(tree, ['node_modules/typescript/bin/tsc'], COMPILER_LIMIT_MS)
  const [types, run] = await Promise.all([
    compiling,
    runNode(tree, argsOf(store), limits.get(argsOf(store).join()) ?? limitMs, (output) =>
      isTold(finder, output),
    ),
  ])
  const stuck = apply(mutant, tree, '--reverse')
  if (stuck !== null) throw new Error(`${mutant.name} cannot be taken back: ${stuck}`)
  return judge(finder, run, typeErrors(types))
}

function typeErrors({ code, output }: Run): string | null {
  return code === 0 ? null : output.split('\n')[0] || 'the compiler failed'
}
