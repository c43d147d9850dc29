// `npm test -- [--fast | --heavy | --store postgres] [--test-OPTION...] [FILE...]`: many test files in each of a few
// processes, because loading TypeScript anew for every file would take longer than most files do. docs/testing.md says
// which kinds of files there are, and what the options run.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync, mkdtempDisposableSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { batchesOf, isHeavy, isOfService, isQuick, needsServer, processesAtOnce } from './support/kinds.ts'
import { COMPILED } from './support/process.ts'
import { scratch } from './support/samples.ts'
import { canBeOthers, isMissing, SERVER_TOOLS, TOOLS } from './support/tools.ts'

const ROOT = join(import.meta.dirname, '..')
/** A test that takes longer has failed; a run that takes longer, because something stays open, is ended. */
const [TEST_LIMIT_MS, RUN_LIMIT_MS] = [5 * 60_000, 30 * 60_000]
/** The first line of a batch whose databases are to be on a server (test/support/database.ts). */
const DATABASES_ON_SERVER = `import 'data:text/javascript,process.env.TRANCHE_TEST_STORE="postgres"'\n`

const say = (text: string): boolean => process.stderr.write(`${text}\n`)
const isForNode = (arg: string): boolean => arg.startsWith('--test-')
const args = process.argv.slice(2)
const { values, positionals: named } = parseArgs({
  args: args.filter((arg) => !isForNode(arg)),
  allowPositionals: true,
  options: { fast: { type: 'boolean' }, heavy: { type: 'boolean' }, store: { type: 'string' } },
})
const { fast, heavy, store } = values
if (store !== undefined && store !== 'postgres') throw new Error('--store takes: postgres')

const kindOf = (file: string) => (needsServer(file) ? 'server' : isHeavy(file) ? 'heavy' : 'file')
const every = Object.groupBy(globSync('test/**/*.test.ts', { cwd: ROOT }), kindOf)
const { server: ofServer = [], heavy: ofHeavy = [], file: ofFile = [] } = every
const ofKind = heavy ? ofHeavy : store ? [...ofFile.filter(isOfService), ...ofServer] : ofFile
const chosen = (named.length > 0 ? named : ofKind).filter((file) => !fast || isQuick(file))
const withoutServer = isMissing('postgres') ? chosen.filter(needsServer) : []
if (withoutServer.length > 0 && process.env.CI) throw new Error('CI must have postgres')
const files = chosen.filter((file) => !withoutServer.includes(file)).sort()
if (files.length > 0) await runAll()

const missing = TOOLS.filter((tool) => (store || !SERVER_TOOLS.includes(tool)) && isMissing(tool))
const isWhole = named.length === 0 && !fast && !heavy
for (const [isSo, remark] of [
  [withoutServer.length > 0, `NOT TESTED, because postgres is not installed: ${withoutServer.join(', ')}`],
  [isWhole && missing.length > 0, `NOT TESTED, because not installed: ${missing.join(', ')}`],
  [isWhole && !canBeOthers(), 'NOT TESTED, because this is not root: what another user may do'],
  [isWhole && !store, `NOT RUN: ${ofServer.length} files that need a server: npm test -- --store postgres`],
  [isWhole && !store, `NOT RUN: ${ofHeavy.length} heavy files: npm test -- --heavy`],
] as const)
  if (isSo) say(`\n${remark}`)

async function runAll(): Promise<void> {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'tranche-tests-'))
  const loaders = ['--import', 'tsx/esm', '--import', import.meta.resolve('./support/preload.ts')]
  const limits = [`--test-concurrency=${processesAtOnce(files)}`, `--test-timeout=${TEST_LIMIT_MS}`]
  const argv = [...loaders, '--test', ...limits, ...args.filter(isForNode), ...writeBatches(folder.path)]
  // Databases are in memory where the machine has a folder for that: a kill -9 has the same effect on both. Compiled
  // functions are cached between runs: of some hundred modules, every process loads most.
  const env = { ...process.env, TMPDIR: scratch(), ...COMPILED }
  const child = spawn(process.execPath, argv, { cwd: ROOT, stdio: 'inherit', env, timeout: RUN_LIMIT_MS })
  process.on('SIGINT', () => {}).on('SIGTERM', () => child.kill('SIGTERM'))
  const [code, signal] = await once(child, 'close')
  if (signal !== null) say(`ENDED by ${signal}, after ${RUN_LIMIT_MS / 60_000} minutes at the latest`)
  process.exitCode = code ?? 1
}

/** A file of imports for each process, named in the order in which they are to be started. */
function writeBatches(folder: string): string[] {
  return batchesOf(files).map((batch, i) => {
    const name = join(folder, `${String(i).padStart(4, '0')}.mjs`)
    const imports = batch.map((file) => `import '${pathToFileURL(resolve(ROOT, file))}'\n`)
    const begin = store && !batch.every(needsServer) ? DATABASES_ON_SERVER : ''
    writeFileSync(name, [begin, ...imports].join(''))
    return name
  })
}
