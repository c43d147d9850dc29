// The code caches of the packages' scripts: their functions as V8 compiles them, so that a `serve` need not at each start.
//
// Run by itself, with the name and the file of one script, it loads that script and writes the cache beside it. What a package runs
// when it is loaded is in its cache; the rest is compiled when it is first called.

import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { Script } from 'node:vm'

/** What the name of a script's cache has behind that of the script, embedded or beside it. */
export const CACHE = '.cache'
const cacheOf = (name: string): string => name + CACHE

/** For the seed see bin/build.ts. A function that is just being compiled further by another thread is noted as such. */
const SAME_BYTES = ['--random-seed=1', '--no-concurrent-sparkplug']

/** Writes the cache of each script beside it: by the names they are embedded under, their files. */
export function codeCaches(scripts: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(scripts).map(([name, file]) => {
      execFileSync(process.execPath, [...SAME_BYTES, import.meta.filename, name, file], {
        // Some packages look for a terminal and its colours when they are loaded, and then run this or that.
        env: {},
        stdio: ['ignore', 'ignore', 'inherit'],
      })
      return [cacheOf(name), cacheOf(file)]
    }),
  )
}

if (import.meta.main) {
  const [name = '', file = ''] = process.argv.slice(2)
  // The cache holds this name, and the folder it was built in is nobody's business.
  const script = new Script(readFileSync(file, 'utf8'), { filename: name })
  const module = { exports: {} }
  script.runInThisContext()(module, module.exports, createRequire(file))
  writeFileSync(cacheOf(file), script.createCachedData())
}
