// Makes dist/tranche: one executable that needs no Node on the machine. The source is bundled into one script, and
// that script, the migrations and the SQLite addon are put into a copy of the Node that runs this.

import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { build } from 'esbuild'
import { ADDON_ASSET } from '../src/store/sqlite/addon.ts'

const ROOT = join(import.meta.dirname, '..')
const DIST = join(ROOT, 'dist')
const NAME = process.platform === 'win32' ? 'tranche.exe' : 'tranche'

refuseMusl()
mkdirSync(DIST, { recursive: true })
// Beside the result, so that a finished executable takes its place in one rename and none is ever half there.
const scratch = mkdtempSync(join(DIST, '.build-'))
try {
  const script = join(scratch, 'tranche.cjs')
  const executable = join(scratch, NAME)
  await bundle(script)
  embed(script, executable)
  const digest = createHash('sha256').update(readFileSync(executable)).digest('hex')
  renameSync(executable, join(DIST, NAME))
  // In the form that `sha256sum --check` reads.
  writeFileSync(join(DIST, `${NAME}.sha256`), `${digest}  ${NAME}\n`)
} finally {
  rmSync(scratch, { recursive: true, force: true })
}
process.stdout.write(`dist/${NAME}\n`)

/** One CommonJS script: what the program imports lazily stays a function that nobody has called yet. */
async function bundle(outfile: string): Promise<void> {
  await build({
    stdin: {
      contents: `import { main } from './src/main.ts'\nmain()\n`,
      resolveDir: ROOT,
      sourcefile: 'tranche.ts',
    },
    outfile,
    bundle: true,
    platform: 'node',
    format: 'cjs',
    // Some packages' main file (jsonc-parser's) hides its requires from a bundler; their ES modules do not.
    mainFields: ['module', 'main'],
    target: `node${process.versions.node}`,
    // Only a checkout asks where its files are; the executable carries them.
    define: { 'import.meta.dirname': '__dirname' },
    // A script that starts from a code cache cannot import(): every lazy import becomes a require.
    supported: { 'dynamic-import': false },
    legalComments: 'inline',
    logLevel: 'warning',
  })
}

function embed(script: string, executable: string): void {
  const sql = readdirSync(join(ROOT, 'sql')).filter((name) => name.endsWith('.sql'))
  const assets = {
    ...Object.fromEntries(sql.map((name) => [`sql/${name}`, join(ROOT, 'sql', name)])),
    [ADDON_ASSET]: addonFile(),
  }
  const sea = {
    main: script,
    mainFormat: 'commonjs',
    output: executable,
    disableExperimentalSEAWarning: true,
    // V8 then starts from compiled functions instead of compiling the whole bundle at every tick.
    useCodeCache: true,
    // A NODE_OPTIONS meant for another program must not change what this one does with money.
    execArgvExtension: 'none',
    assets,
  }
  const config = join(scratch, 'sea.json')
  writeFileSync(config, JSON.stringify(sea))
  execFileSync(process.execPath, ['--build-sea', config], { stdio: ['ignore', 'ignore', 'inherit'] })
  chmodSync(executable, 0o755)
}

/** The prebuilt addon that better-sqlite3 ships for this system. */
function addonFile(): string {
  return join(ROOT, 'node_modules/better-sqlite3/prebuilds', `${process.platform}-${process.arch}.node`)
}

/** The Node that npm brings is linked against glibc, and so would be the executable. */
function refuseMusl(): void {
  if (process.platform !== 'linux') return
  const report = process.report.getReport() as { header: { glibcVersionRuntime?: string } }
  if (report.header.glibcVersionRuntime) return
  throw new Error('tranche is built for glibc: on Alpine and other musl systems there is no executable')
}
