// The store on a server as a script of its own: an operator with a file does not pay for it. It shares every other
// module with the script that loads it, so a Problem is the same class in both.

import { globSync } from 'node:fs'
import { builtinModules } from 'node:module'
import { join, relative, resolve } from 'node:path'
import type { Metafile, Plugin } from 'esbuild'
import { type Kept, LOAD_ASSET, ROOT, script, wrap } from './script.ts'

const ROOM = 'src/store/postgres/'
const ASSET = 'rooms/postgres.cjs'

export type Room = {
  file: string
  asset: string
  metafile: Metafile
  /** What it asks of the script that loads it: files of src, and packages. */
  shared: string[]
}

export async function writeRoom(scratch: string, kept?: Kept): Promise<Room> {
  const file = join(scratch, 'room.cjs')
  const shared = new Set<string>()
  const modules = globSync(`${ROOM}**/*.ts`, { cwd: ROOT }).sort()
  const metafile = await script(`module.exports = {${entries(modules)}}`, file, [shareTheRest(shared)], kept)
  wrap(file)
  return { file, asset: ASSET, metafile, shared: [...shared].sort() }
}

/** Sends imports of the room's modules to its script. */
export function roomApart({ asset, shared }: Room): Plugin {
  return {
    name: 'room-apart',
    setup({ onResolve, onLoad }) {
      onResolve({ filter: /^\./ }, ({ path, resolveDir }) => {
        const module = moduleAt(path, resolveDir)
        return module.startsWith(ROOM) ? { path: module, namespace: 'room' } : undefined
      })
      onResolve({ filter: /^the room$/ }, ({ path }) => ({ path, namespace: 'room' }))
      onLoad({ filter: /.*/, namespace: 'room' }, ({ path }) => ({
        resolveDir: ROOT,
        contents:
          path === 'the room'
            ? `${LOAD_ASSET}
              const shared = {${entries(shared)}}
              load('${asset}')(module, exports, (name) => name in shared ? shared[name]() : require(name))`
            : `module.exports = require('the room')['${path}']()`,
      }))
    },
  }
}

function shareTheRest(shared: Set<string>): Plugin {
  return {
    name: 'share-the-rest',
    setup({ onResolve }) {
      onResolve({ filter: /./ }, ({ path, resolveDir, kind }) => {
        if (kind === 'entry-point' || path.startsWith('node:') || builtinModules.includes(path))
          return undefined
        const name = path.startsWith('.') ? moduleAt(path, resolveDir) : path
        if (name.startsWith(ROOM)) return undefined
        shared.add(name)
        return { path: name, external: true }
      })
    },
  }
}

const moduleAt = (path: string, from: string): string => relative(ROOT, resolve(from, path))

/** Members that load a module each when they are called. */
const entries = (names: readonly string[]): string =>
  names
    .map((name) => `'${name}': () => require('${name.startsWith('src/') ? `./${name}` : name}'),`)
    .join('\n')
