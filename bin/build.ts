// Makes dist/tranche: one executable that needs no Node on the machine. The source is bundled into scripts, and they,
// the migrations, the guides, the texts of deploy/ and the SQLite addon are put into a copy of the Node that runs this;
// with --target, into the Node of another system, of the same version. The same commit gives the same bytes wherever
// and whenever it is built.

import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  copyFileSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join, relative } from 'node:path'
import { parseArgs } from 'node:util'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import { ADDON_ASSET } from '../src/addon.ts'
import {
  browserAsset,
  browserFiles,
  findBrowserFile,
  findDeployed,
  findPageFiles,
  HASHES_ASSET,
  PAGES_ASSET,
  VIEWER,
} from '../src/resources.ts'
import { type Bundle, bundle } from './bundle.ts'
import { licenceNotice } from './licences.ts'
import { billOfMaterials } from './sbom.ts'
import { type Target, targetOf } from './target.ts'

const ROOT = join(import.meta.dirname, '..')
const DIST = join(ROOT, 'dist')
/** The best quality would save another 12 KB and take longer than all the bundling. */
const PACKED = { [constants.BROTLI_PARAM_QUALITY]: 9 }

const { values } = parseArgs({ options: { target: { type: 'string' } } })
refuseMusl()
mkdirSync(DIST, { recursive: true })
// Beside the result, so that a finished file takes its place in one rename and none is ever half there.
const scratch = mkdtempSync(join(DIST, '.build-'))
try {
  const target = targetOf(values.target, scratch)
  const scripts = await bundle(scratch)
  const parts = [...scripts.bundled, join(ROOT, 'node_modules', VIEWER)].sort()
  const notice = licenceNotice(parts)
  const executable = embed(scripts, target)
  const hash = sha256(executable)
  const { name, nodePackage } = target
  const sbom = billOfMaterials({ name, sha256: hash, bundled: parts, nodePackage })
  publish('LICENSES.txt', notice)
  // Linux maps a file that was written in one piece with huge pages, and a running service would hold 45 MiB more of
  // it. A copy, as on a machine where it is installed, is written in small pieces.
  copyFileSync(executable, `${executable}-copy`)
  renameSync(`${executable}-copy`, join(DIST, name))
  publish(`${name}.cdx.json`, sbom)
  // In the form that `sha256sum --check` reads.
  publish(`${name}.sha256`, `${hash}  ${name}\n`)
  process.stdout.write(`dist/${target.name}\n`)
} finally {
  rmSync(scratch, { recursive: true, force: true })
}

function embed({ main, others }: Bundle, { node, addon, isForeign }: Target): string {
  const executable = join(scratch, 'executable')
  const pages = join(scratch, PAGES_ASSET)
  writeFileSync(pages, brotliCompressSync(JSON.stringify(findPageFiles(ROOT)), { params: PACKED }))
  const texts = [...globSync('sql/**/*.sql', { cwd: ROOT }), ...findDeployed(ROOT)].sort()
  const files: Record<string, string> = {
    ...Object.fromEntries(texts.map((name) => [name, join(ROOT, name)])),
    ...others,
    ...zippedForBrowsers(),
    [ADDON_ASSET]: addon,
    [PAGES_ASSET]: pages,
  }
  const hashes = join(scratch, HASHES_ASSET)
  writeFileSync(hashes, JSON.stringify(hashesOf(files)))
  const sea = {
    // The executable records what it is told, and the folder it was built in is nobody's business.
    main: relative(scratch, main),
    mainFormat: 'commonjs',
    executable: node,
    output: executable,
    disableExperimentalSEAWarning: true,
    // V8 then starts from compiled functions instead of compiling the script at every tick. Compiled functions are of
    // one processor: another one's V8 would refuse them.
    useCodeCache: !isForeign,
    // A NODE_OPTIONS meant for another program must not change what this one does with money.
    execArgvExtension: 'none',
    // Otherwise a signal opens Node's debugger to everybody on the machine until the program handles that signal. V8's
    // nursery would start at 1 MiB, grow to 16 and shrink again. Where it is smaller than this, the heads of many calls
    // outlive it: full collections then take most of the time, in some processes and not in others, and a flood of
    // large heads cost three to five times as much. Above it a service holds more, and calls cost no less.
    execArgv: ['--disable-sigusr1', '--min-semi-space-size=6', '--max-semi-space-size=6'],
    assets: { ...files, [HASHES_ASSET]: hashes },
  }
  writeFileSync(join(scratch, 'sea.json'), JSON.stringify(sea))
  // The code cache depends on the seed of V8's hashes, which is otherwise new in each process. This option does not
  // count among those that a cache is refused for, and the executable draws a seed of its own at every start.
  execFileSync(process.execPath, ['--random-seed=1', '--build-sea', 'sea.json'], {
    cwd: scratch,
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  chmodSync(executable, 0o755)
  return executable
}

/** The files for browsers as they are sent. Gzip's own header holds neither a time nor a name. */
function zippedForBrowsers(): Record<string, string> {
  return Object.fromEntries(
    browserFiles.map((name) => {
      const file = join(scratch, `${name}.gz`)
      writeFileSync(file, gzipSync(readFileSync(findBrowserFile(ROOT, name)), { level: 9 }))
      return [browserAsset(name), file]
    }),
  )
}

function hashesOf(files: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(files).map(([name, file]) => [name, sha256(file)]))
}

function sha256(file: string): string {
  return createHash('sha256').update(readFileSync(file)).digest('hex')
}

function publish(name: string, text: string): void {
  writeFileSync(join(scratch, name), text)
  renameSync(join(scratch, name), join(DIST, name))
}

/** The Node that npm brings is linked against glibc, and so would be the executable. */
function refuseMusl(): void {
  if (process.platform !== 'linux') return
  const report = process.report.getReport() as { header: { glibcVersionRuntime?: string } }
  if (report.header.glibcVersionRuntime) return
  throw new Error('tranche is built for glibc: there is no executable for Alpine and other musl systems')
}
