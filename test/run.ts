// `npm test`: many test files in each of a few processes. Loading TypeScript anew for every file would take longer than
// most files do.
//
//   node bin/with-node.mjs test/run.ts [--fast] [--heavy | --store postgres] [--record-costs]
//     [--test-OPTION...] [FILE...]
//
// --fast leaves out the tests that start processes (*.process.test.ts, *.server.test.ts), that wait (*.wait.test.ts)
// and that simulate weeks or write many rows (*.long.test.ts). --record-costs runs each file by itself and writes down
// what it takes.
//
// --heavy runs what takes seconds of every core for one rule, a second build among it, what drives a browser, and
// short runs of searches that can go on for minutes, such as the fuzzer's (*.heavy.test.ts). Nothing else runs them.
//
// --store postgres runs what needs a PostgreSQL server: *.server.test.ts, which nothing else runs, and the suites of
// the whole service (test/support/whole-service.ts) once more, with their databases there.
//
// Their databases are in memory where the machine has a folder for that. A crash of the machine is the one thing that a
// disk would add, and no test can bring it about; a kill -9 leaves both alike.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { isHeavy, isQuick, isWaiting, needsServer } from './support/kinds.ts'
import { COMPILED } from './support/process.ts'
import { recordCosts } from './support/record-costs.ts'
import { scratch } from './support/samples.ts'
import { spread } from './support/spread.ts'
import { canBeOthers, isMissing, SERVER_TOOLS, TOOLS } from './support/tools.ts'
import { wholeService } from './support/whole-service.ts'

const ROOT = join(import.meta.dirname, '..')
const CORES = availableParallelism()

/** What every process loads before its tests. */
const LOADERS = [
  'tsx/esm',
  ...['untracked-promises', 'no-exit'].map(
    (name) => pathToFileURL(join(import.meta.dirname, `support/${name}.ts`)).href,
  ),
].flatMap((loader) => ['--import', loader])

/** They take next to no processor time, so they may run beside everything else. */
const WAITING = 3

/** While those wait, others keep the cores busy, and those that start processes wait for them half of the time. */
const AT_ONCE = WAITING + 2 * CORES

/** The kinds of test files in the order they are started, and how many processes share the files of each. */
const KINDS: { has: (file: string) => boolean; processes: number }[] = [
  { has: isWaiting, processes: WAITING },
  { has: needsServer, processes: 2 * CORES },
  { has: (file) => file.endsWith('.process.test.ts'), processes: 2 * CORES },
  { has: (file) => isQuick(file) || isHeavy(file) || file.endsWith('.long.test.ts'), processes: CORES },
]

/** What a batch begins with whose databases are to be on a server (test/support/database.ts). */
const DATABASES_ON_SERVER = `import 'data:text/javascript,process.env.TRANCHE_TEST_STORE="postgres"'\n`

/** A test that takes longer has failed; a run that takes longer, because something stays open, is ended. */
const TEST_LIMIT_MS = 5 * 60_000
const RUN_LIMIT_MS = 30 * 60_000

const args = process.argv.slice(2)
const options = [`--test-timeout=${TEST_LIMIT_MS}`, ...args.filter((arg) => arg.startsWith('--test-'))]
const onServer = args.includes('--store')
if (onServer && args[args.indexOf('--store') + 1] !== 'postgres') throw new Error('--store takes: postgres')
const named = args.filter((arg, at) => !arg.startsWith('--') && args[at - 1] !== '--store')
const every = globSync('test/**/*.test.ts', { cwd: ROOT })
const ofServer = every.filter(needsServer)
const heavy = every.filter(isHeavy)
const ofFile = every.filter((file) => !needsServer(file) && !isHeavy(file))
const ofStore = onServer ? [...wholeService(ROOT), ...ofServer] : ofFile
const all = args.includes('--heavy') ? heavy : ofStore
const asked = (named.length > 0 ? named : all).filter((file) => !args.includes('--fast') || isQuick(file))
const withoutServer = isMissing('postgres') ? asked.filter(needsServer) : []
const files = asked.filter((file) => !withoutServer.includes(file)).sort()
/** Whether this is a run of all tests, on one store or the other. */
const isWhole = named.length === 0 && !args.includes('--fast') && !args.includes('--heavy')

const env = {
  ...process.env,
  TMPDIR: scratch(),
  // Compiled functions stay from one run to the next: of some hundred modules, every process loads most.
  ...COMPILED,
}

if (withoutServer.length > 0) {
  if (process.env.CI) throw new Error('postgres is not installed, and CI must have it')
  process.stderr.write(`NOT TESTED, because postgres is not installed: ${withoutServer.join(', ')}\n`)
}
if (args.includes('--record-costs')) {
  if (onServer) throw new Error('--record-costs measures suites with their databases in files')
  recordCosts(files, LOADERS, env)
} else if (files.length > 0) await runAll()

async function runAll(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'tranche-tests-'))
  try {
    const flags = [...LOADERS, '--test', `--test-concurrency=${AT_ONCE}`, ...options]
    const argv = [...flags, ...writeBatches(folder)]
    const child = spawn(process.execPath, argv, { cwd: ROOT, stdio: 'inherit', env })
    process.on('SIGINT', () => {}).on('SIGTERM', () => child.kill('SIGTERM'))
    const limit = setTimeout(() => {
      process.stderr.write(
        `\nENDED after ${RUN_LIMIT_MS / 60_000} minutes: something in the tests stays open\n`,
      )
      child.kill('SIGTERM')
    }, RUN_LIMIT_MS)
    const [code] = await once(child, 'close')
    clearTimeout(limit)
    process.exitCode = code ?? 1
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  if (isWhole) sayWhatIsLeftOut()
}

function sayWhatIsLeftOut(): void {
  const say = (text: string): boolean => process.stderr.write(`\n${text}\n`)
  const missing = TOOLS.filter((tool) => (onServer || !SERVER_TOOLS.includes(tool)) && isMissing(tool))
  if (missing.length > 0) say(`NOT TESTED, because not installed: ${missing.join(', ')}`)
  if (!canBeOthers()) say('NOT TESTED, because this is not root: what another user may do')
  if (onServer) return
  say(`NOT RUN: ${ofServer.length} files of tests on a PostgreSQL server: npm test -- --store postgres`)
  say(`NOT RUN: ${heavy.length} files of heavy tests: npm test -- --heavy`)
}

/** A file of imports for each process, named in the order they are to be started. */
function writeBatches(folder: string): string[] {
  return KINDS.flatMap(({ has, processes }, kind) =>
    spread(files.filter(has), processes).map((batch, i) => {
      const name = join(folder, `${kind}-${i}.mjs`)
      const imports = batch.map((file) => `import '${pathToFileURL(resolve(ROOT, file))}'\n`)
      const isSuite = onServer && has !== needsServer
      writeFileSync(name, [...(isSuite ? [DATABASES_ON_SERVER] : []), ...imports].join(''))
      return name
    }),
  )
}
