// The source as scripts for the executable: one that every start reads, and one for each package, and for the store on
// a server, that only some need.
//
// What a start costs is mostly the size of its script, read or not: with all packages in it, 4 MB, `tranche version`
// took twice as long. So a package that neither `version` nor an idle `tick` uses is a script of its own, embedded
// beside the first and compiled when it is first asked for.

import { readFileSync } from 'node:fs'
import { builtinModules } from 'node:module'
import { join, resolve } from 'node:path'
import type { Metafile, Plugin } from 'esbuild'
import { THREAD_ASSET } from '../src/store/sqlite/file/checkpoints.ts'
import { roomApart, writeRoom } from './room-apart.ts'
import { type Kept, LOAD_ASSET, ROOT, script, wrap } from './script.ts'

/** Used by an idle tick: these stay in the script that has a code cache. */
const START_PACKAGES = ['commander', 'decimal.js', 'better-sqlite3']

/** Modules of Node that take milliseconds to load, and that a start may never come to use. */
const COSTLY_MODULES = ['child_process', 'crypto', 'fs/promises', 'http2', 'zlib']

export type Bundle = {
  /** The script to start from. */
  main: string
  /** The others, of packages and of threads: the name each is embedded under, and its file. */
  others: Record<string, string>
  /** The folders of the packages that have gone into any of them. */
  bundled: string[]
}

/** Writes the scripts into `scratch`. */
export async function bundle(scratch: string, kept?: Kept): Promise<Bundle> {
  const apart = new Set<string>()
  const main = join(scratch, 'tranche.cjs')
  const start = `import { main } from './src/main.ts'\nmain()\n`
  const room = await writeRoom(scratch, kept)
  const plugins = [roomApart(room), packagesApart(apart), costlyModulesLater()]
  const made = [room.metafile, await script(start, main, plugins, kept)]
  const others: Record<string, string> = { [room.asset]: room.file }
  for (const name of [...apart].sort()) {
    const file = join(scratch, `${name.replaceAll('/', '-')}.cjs`)
    const entry = `module.exports = require('${ENTRIES[name] ?? name}')\n`
    made.push(await script(entry, file, [costlyModulesLater()], kept))
    wrap(file)
    others[assetOf(name)] = file
  }
  const thread = join(scratch, 'thread.cjs')
  made.push(await script(`import './src/store/sqlite/file/checkpoint-thread.ts'\n`, thread, [], kept))
  others[THREAD_ASSET] = thread
  return { main, others, bundled: [...new Set(made.flatMap(packageFolders))].sort() }
}

/** The part of ECharts that has lines, bars and scatter, in modules, so that zrender's name and licence are seen. */
const ENTRIES: Record<string, string> = { echarts: 'echarts/index.common.js' }

const assetOf = (name: string): string => `packages/${name}.cjs`

/** Sends the source's imports of a package to the script of that package, and notes which there have to be. */
function packagesApart(apart: Set<string>): Plugin {
  return {
    name: 'packages-apart',
    setup({ onResolve, onLoad }) {
      onResolve({ filter: /^[a-z@]/ }, ({ path, importer }) => {
        const isNode = path.startsWith('node:') || builtinModules.includes(path)
        if (isNode || START_PACKAGES.includes(path) || importer.includes('node_modules')) return undefined
        apart.add(path)
        return { path, namespace: 'apart' }
      })
      onLoad({ filter: /.*/, namespace: 'apart' }, ({ path }) => ({
        contents: `${LOAD_ASSET}\nload(${JSON.stringify(assetOf(path))})(module, exports, require)`,
      }))
    },
  }
}

/** Gives the importer an object that looks like the module and loads it when something is taken from it. */
function costlyModulesLater(): Plugin {
  const costly = new RegExp(`^(node:)?(${COSTLY_MODULES.join('|')})$`)
  return {
    name: 'costly-modules-later',
    setup({ onResolve, onLoad }) {
      onResolve({ filter: costly }, ({ path }) => ({ path: path.replace('node:', ''), namespace: 'later' }))
      onLoad({ filter: /.*/, namespace: 'later' }, ({ path }) => {
        const names = Object.keys(process.getBuiltinModule(path) ?? {})
        const getters = names.map((name) => `get ${name}() { return load().${name} },`)
        return {
          contents: `const load = () => process.getBuiltinModule('${path}')\nmodule.exports = {${getters.join('\n')}}`,
        }
      })
    },
  }
}

/** The folder of each package of which something is in the script. */
function packageFolders({ outputs }: Metafile): string[] {
  const inputs = Object.values(outputs).flatMap((output) => Object.entries(output.inputs))
  return inputs
    .filter(([, { bytesInOutput }]) => bytesInOutput > 0)
    .map(([file]) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(file)?.[1])
    .filter((folder) => folder !== undefined)
    .map((folder) => resolve(ROOT, folder))
}

/** The name, version and licence that a package states. */
export const manifestOf = (folder: string): { name: string; version: string; license?: unknown } =>
  JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
