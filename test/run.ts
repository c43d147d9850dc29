// `npm test`: many test files in each of a few processes. Loading TypeScript anew for every file would take longer than
// most files do. docs/testing.md says which kinds of files there are, and what the options run.
//
//   npm test -- [--fast | --heavy | --store postgres] [--test-OPTION...] [FILE...]
//
// Their databases are in memory where the machine has a folder for that. A crash of the machine is the one thing that a
// disk would add, and no test can bring it about; a kill -9 leaves both alike.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync, mkdtempDisposableSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { batchesOf, isHeavy, isOfService, isQuick, needsServer, PROCESSES_AT_ONCE } from './support/kinds.ts'
import { COMPILED } from './support/process.ts'
import { scratch } from './support/samples.ts'
import { canBeOthers, isMissing, SERVER_TOOLS, TOOLS } from './support/tools.ts'

const ROOT = join(import.meta.dirname, '..')
/** A test that takes longer has failed; a run that takes longer, because something stays open, is ended. */
const TEST_LIMIT_MS = 5 * 60_000
const RUN_LIMIT_MS = 30 * 60_000

/** What a batch begins with whose databases are to be on a server (test/support/database.ts). */
const DATABASES_ON_SERVER = `import 'data:text/javascript,process.env.TRANCHE_TEST_STORE="postgres"'\n`

const say = (text: string): boolean => process.stderr.write(`${text}\n`)
const isForNode = (arg: string): boolean => arg.startsWith('--test-')
const args = process.argv.slice(2)
const { values, positionals: named } = parseArgs({
  args: args.filter((arg) => !isForNode(arg)),
  allowPositionals: true,
  options: {
    fast: { type: 'boolean', default: false },
    heavy: { type: 'boolean', default: false },
    store: { type: 'string' },
  },
})
const { fast, heavy, store } = values
const onServer = store !== undefined
if (onServer && store !== 'postgres') throw new Error('--store takes: postgres')

const every = globSync('test/**/*.test.ts', { cwd: ROOT })
const kindOf = (file: string) => (needsServer(file) ? 'server' : isHeavy(file) ? 'heavy' : 'file')
const { server: ofServer = [], heavy: ofHeavy = [], file: ofFile = [] } = Object.groupBy(every, kindOf)
const ofStore = onServer ? [...ofFile.filter(isOfService), ...ofServer] : ofFile
const chosen = named.length > 0 ? named : heavy ? ofHeavy : ofStore
const asked = chosen.filter((file) => !fast || isQuick(file))
const withoutServer = isMissing('postgres') ? asked.filter(needsServer) : []
const files = asked.filter((file) => !withoutServer.includes(file)).sort()

if (withoutServer.length > 0) {
  if (process.env.CI) throw new Error('postgres is not installed, and CI must have it')
  say(`NOT TESTED, because postgres is not installed: ${withoutServer.join(', ')}`)
}
const loaders = ['--import', 'tsx/esm', '--import', import.meta.resolve('./support/preload.ts')]
// Compiled functions stay from one run to the next: of some hundred modules, every process loads most.
const env = { ...process.env, TMPDIR: scratch(), ...COMPILED }
if (files.length > 0) await runAll()

async function runAll(): Promise<void> {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'tranche-tests-'))
  const limits = [`--test-concurrency=${PROCESSES_AT_ONCE}`, `--test-timeout=${TEST_LIMIT_MS}`]
  const argv = [...loaders, '--test', ...limits, ...args.filter(isForNode), ...writeBatches(folder.path)]
  const child = spawn(process.execPath, argv, { cwd: ROOT, stdio: 'inherit', env })
  process.on('SIGINT', () => {}).on('SIGTERM', () => child.kill('SIGTERM'))
  const limit = setTimeout(() => {
    say(`\nENDED after ${RUN_LIMIT_MS / 60_000} minutes: something in the tests stays open`)
    child.kill('SIGTERM')
  }, RUN_LIMIT_MS)
  const [code] = await once(child, 'close')
  clearTimeout(limit)
  process.exitCode = code ?? 1
  // After a run of all tests, on one store or the other.
  if (named.length === 0 && !fast && !heavy) sayWhatIsLeftOut()
}

/** A file of imports for each process, named in the order in which they are to be started. */
function writeBatches(folder: string): string[] {
  return batchesOf(files).map((batch, i) => {
    const name = join(folder, `${String(i).padStart(4, '0')}.mjs`)
    const isSuite = onServer && !batch.every(needsServer)
    const imports = batch.map((file) => `import '${pathToFileURL(resolve(ROOT, file))}'\n`)
    writeFileSync(name, [...(isSuite ? [DATABASES_ON_SERVER] : []), ...imports].join(''))
    return name
  })
}

function sayWhatIsLeftOut(): void {
  const missing = TOOLS.filter((tool) => (onServer || !SERVER_TOOLS.includes(tool)) && isMissing(tool))
  if (missing.length > 0) say(`\nNOT TESTED, because not installed: ${missing.join(', ')}`)
  if (!canBeOthers()) say('\nNOT TESTED, because this is not root: what another user may do')
  if (onServer) return
  say(`\nNOT RUN: ${ofServer.length} files of tests on a PostgreSQL server: npm test -- --store postgres`)
  say(`\nNOT RUN: ${ofHeavy.length} files of heavy tests: npm test -- --heavy`)
}
