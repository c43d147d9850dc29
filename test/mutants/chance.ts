// Plants random bugs, from a seed, and says which test notices each: `npm run mutants -- --seed 1 --count 200`.
//
// For each, one token of code or of SQL is changed in a copy of the tree, so that it still compiles. Then come the
// tests that run the changed place: those of one process, then those that start the program or need a server, the
// quickest of each first. A surviving bug is printed with its change. The list is stored as JSON, and the same command
// resumes an interrupted run.

import { createHash } from 'node:crypto'
import { existsSync, globSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { seededRandom } from '../../src/engine/backtest.ts'
import { importsOf } from '../support/house.ts'
import { isHeavy, isQuick, needsServer } from '../support/kinds.ts'
import { minutes, optionsOrExit, runner, wholeFrom } from '../support/runner.ts'
import { type Change, changesOf, compilerOf } from './changes.ts'
import { type Failure, failuresIn, IN_ONE_PROCESS, measureTests } from './coverage.ts'
import { CONTRACT, copyTree, putSourceForExecutable, ROOT, runNode, STILLBORN } from './tree.ts'

const ROOMS = ['billing', 'core', 'engine', 'http', 'price', 'store', 'webhook']
/** Tests that only read the program as text would notice any change. */
const READ_AS_TEXT = /^test\/(?:tidy|mutants\/)/
/** The number of unreliable tests, failing anyway or by chance, that one bug may skip. */
const PASSED_OVER_MAX = 5

/** `stuck`: a run did not end in time. `stillborn`: the SQL makes no sense. */
type Verdict = 'killed' | 'lived' | 'stillborn' | 'stuck'
type Bug = { file: string; line: number; what: string; before: string; after: string }
type Judged = Bug & { verdict: Verdict; by: string; seconds: number }
type Planted = Bug & { text: string; offset: number }
/** The time for the slow tests of a bug, which start the program or a server. */
const SLOW_MAX_MS = 15 * 60_000
/** The time after which tests that share a process count as stuck: other bugs are judged at the same time. */
const START_MS = 30_000
const SLOWER = 5

const options = optionsOrExit((args) =>
  runner('mutants', 'Plants bugs by chance, and says which test notices each.')
    .requiredOption('--seed <n>', 'the same bugs for the same seed', wholeFrom(0))
    .requiredOption('--count <n>', 'how many', wholeFrom(1))
    .option('--only <path>', `only in what begins so: ${ROOMS.join(', ')}, store/sqlite`, '')
    .option('--jobs <n>', 'how many at once', wholeFrom(1), 1)
    .option('--minutes <n>', 'how long one run of tests may take', minutes, 20)
    .option('--list <file>', 'where the list is kept (default: dist/mutants-SEED.json)')
    .parse(args, { from: 'user' })
    .opts(),
)
const limitMs = options.minutes * 60_000
const program = sourcesOfAll()
const sources = new Map(
  [...program]
    .filter(([file]) => ROOMS.includes(file.split('/')[1] ?? ''))
    .filter(([file]) => file.startsWith(`src/${options.only}`))
    .map(([file, { text }]) => [file, text]),
)
const tests = globSync('test/**/*.test.ts', { cwd: ROOT })
  .sort()
  .filter((file) => !READ_AS_TEXT.test(file) && !isHeavy(file))
const listFile = options.list ?? join(ROOT, `dist/mutants-${options.seed}.json`)
const made = digestOf([...sources])
const judged = readList()
/** Files of tests that pass without a bug. */
const passes = new Set<string>()

const say = (line: string) => process.stdout.write(`${line}\n`)
const { runners, msOf, fails } = await measureTests(treeForTests(), tests, program, {
  list: join(ROOT, 'dist/mutants-tests.json'),
  made: digestOf([...program]),
  limitMs,
})
/** Tests that fail without a bug too. */
const failsAnyway = new Set<string>(fails)
const bugs = byChance()
let number = 0
await Promise.all(Array.from({ length: options.jobs }, work))
const counted = Map.groupBy(judged.values(), ({ verdict }) => verdict)
say([...counted].map(([verdict, { length }]) => `${length} ${verdict}`).join(', '))
say(`The list is in ${relative(process.cwd(), listFile)}.`)

/** Judges one bug after the other, in a tree of its own, until all are. */
async function work(): Promise<void> {
  const tree = treeForTests()
  for (const bug of bugs) {
    number += 1
    const label = `${String(number).padStart(4)} ${bug.file}:${bug.line}  ${bug.what}`
    const key = keyOf(bug)
    if (judged.has(key)) continue
    const begun = performance.now()
    const { verdict, by } = await judge(bug, tree)
    const seconds = Math.round((performance.now() - begun) / 1000)
    const { text: _, offset: __, ...kept } = bug
    judged.set(key, { ...kept, verdict, by, seconds })
    writeList()
    say(`${label}  ${verdict}  ${seconds} s  ${by}`)
    if (verdict === 'lived') say(`     - ${bug.before}\n     + ${bug.after}`)
  }
}

function treeForTests(): string {
  const tree = copyTree()
  putSourceForExecutable(tree)
  return tree
}

function* byChance(): Generator<Planted> {
  const random = seededRandom(options.seed)
  const all = [...sources].flatMap(([file, text]) =>
    changesOf(file, text).map((change) => ({ file, change })),
  )
  // The working tree may change meanwhile.
  const compiles = compilerOf(copyTree())
  for (let taken = 0; taken < options.count && all.length > 0; ) {
    const [picked] = all.splice(Math.floor(random() * all.length), 1)
    if (!picked) return
    const bug = plantedAt(picked.file, picked.change)
    if (!compiles(bug.file, bug.text)) continue
    taken += 1
    yield bug
  }
}

function plantedAt(file: string, { start, end, text, what }: Change): Planted {
  const source = sources.get(file) ?? ''
  const from = source.lastIndexOf('\n', start - 1) + 1
  const to = source.indexOf('\n', end)
  const line = source.slice(0, start).split('\n').length
  const before = shown(source.slice(from, to))
  const after = shown(source.slice(from, start) + text + source.slice(end, to))
  const changed = source.slice(0, start) + text + source.slice(end)
  return { file, line, what, before, after, offset: start, text: changed }
}

function shown(lines: string): string {
  const [first = '', ...others] = lines.trim().split('\n')
  return others.length > 2 ? `${first} …` : [first, ...others].map((line) => line.trim()).join(' ')
}

async function judge(bug: Planted, tree: string): Promise<{ verdict: Verdict; by: string }> {
  const passedOver = new Set(failsAnyway)
  for (const files of nearest(bug)) {
    for (;;) {
      plant(bug, tree)
      const found = await failureOf(tree, files, passedOver)
      restore(bug, tree)
      if (found === null) break
      if (typeof found === 'string') return { verdict: found, by: '' }
      // The contract's tests are in files that it imports.
      const again = found.file === null ? files : [found.file]
      if (await isTheBugs(found.test, again, bug, tree)) return { verdict: 'killed', by: found.test }
      passedOver.add(found.test)
      if (passedOver.size - failsAnyway.size > PASSED_OVER_MAX)
        return { verdict: 'stuck', by: 'too many tests fail by chance' }
    }
  }
  return { verdict: 'lived', by: '' }
}

/** Whether a run of few tests fails once more with the bug, and does not without it. */
async function isTheBugs(
  test: string,
  files: readonly string[],
  bug: Planted,
  tree: string,
): Promise<boolean> {
  plant(bug, tree)
  const again = await failureOf(tree, files, failsAnyway)
  restore(bug, tree)
  if (again === null) return false
  const which = files.join()
  if (passes.has(which)) return true
  const without = await failureOf(tree, files, failsAnyway)
  if (without === null) passes.add(which)
  else failsAnyway.add(test)
  return without === null
}

/** The first test that fails, or why no test can tell; null when all pass. */
async function failureOf(
  tree: string,
  files: readonly string[],
  passedOver: ReadonlySet<string>,
): Promise<Failure | 'stillborn' | 'stuck' | null> {
  const first = (output: string) => failuresIn(output, tree).find(({ test }) => !passedOver.has(test))
  const mayTakeMs = Math.min(limitMs, START_MS + SLOWER * msOf(files))
  const args = [...IN_ONE_PROCESS, ...files]
  const run = await runNode(tree, args, mayTakeMs, (output) => first(output) !== undefined)
  const found = first(run.output)
  if (found !== undefined) return STILLBORN.test(found.details) ? 'stillborn' : found
  if (run.timedOut) return 'stuck'
  const isNamed = failuresIn(run.output, tree).length > 0
  return run.code === 0 || isNamed ? null : { test: 'the tests did not load', file: null, details: '' }
}

function plant({ file, text }: Planted, tree: string): void {
  writeFileSync(join(tree, file), text)
}

function restore({ file }: Planted, tree: string): void {
  writeFileSync(join(tree, file), sources.get(file) ?? '')
}

/** The contracts of its stores, and the tests that run its place: the ones in this process first, then the others. */
function nearest({ file, offset }: Planted): string[][] {
  const near = runners(file, offset)
  const isOfServer = file.includes('/postgres/')
  const isOfFile = file.includes('/sqlite/')
  const isOfStore = file.startsWith('src/store/')
  const first = isOfStore && !isOfServer && near.includes(CONTRACT.sqlite) ? [CONTRACT.sqlite] : []
  const server = isOfStore && !isOfFile ? [CONTRACT.postgres] : []
  const rest = near.filter((test) => ![...first, ...server].includes(test))
  const slow = rest.filter((test) => !isAlone(test) && (isOfServer || !needsServer(test)))
  const some = slow.filter((_, at) => msOf(slow.slice(0, at + 1)) < SLOW_MAX_MS)
  return [first, rest.filter(isAlone), server, some].filter(({ length }) => length > 0)
}

function isAlone(file: string): boolean {
  return isQuick(file) || file.endsWith('.long.test.ts')
}

/** The program as text, with the files that import each. */
function sourcesOfAll(): Map<string, { text: string; importers: string[] }> {
  const files = globSync('src/**/*.ts', { cwd: ROOT }).sort()
  const all = new Map(
    files.map((file) => [file, { text: readFileSync(join(ROOT, file), 'utf8'), importers: [] as string[] }]),
  )
  for (const file of files)
    for (const { target, typesOnly } of importsOf(file)) if (!typesOnly) all.get(target)?.importers.push(file)
  return all
}

function digestOf(what: unknown): string {
  return createHash('sha256').update(JSON.stringify(what)).digest('hex')
}

function keyOf({ file, line, what, before, after }: Bug): string {
  return [file, line, what, before, after].join('\n')
}

function readList(): Map<string, Judged> {
  if (!existsSync(listFile)) return new Map()
  const list = JSON.parse(readFileSync(listFile, 'utf8'))
  if (list.seed === options.seed && list.only === options.only && list.made === made)
    return new Map(list.bugs.map((bug: Judged) => [keyOf(bug), bug]))
  process.stderr.write(
    `${listFile} is of another seed, part or state of the program: remove it, or name another\n`,
  )
  process.exit(2)
}

function writeList(): void {
  mkdirSync(dirname(listFile), { recursive: true })
  const { seed, only } = options
  writeFileSync(
    `${listFile}.new`,
    `${JSON.stringify({ seed, only, made, bugs: [...judged.values()] }, null, 2)}\n`,
  )
  renameSync(`${listFile}.new`, listFile)
}
