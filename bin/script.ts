// One script of the executable: how it is made of the source, and how another one loads it.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type BuildOptions, build, type Metafile, type Plugin } from 'esbuild'

export const ROOT = join(import.meta.dirname, '..')

/** What listhen asks for only to watch files, to tunnel, to copy an address or to speak WebSocket: never done here. */
const LEFT_OUT = ['@parcel/watcher', '@parcel/watcher-wasm', 'crossws/*', 'jiti', 'tinyclip', 'untun']

/** Defines `load(asset)`: the function that an embedded script is (wrap). */
export const LOAD_ASSET = `
const { getAsset } = require('node:sea')
const { Script } = require('node:vm')
const load = (name) => new Script(getAsset(name, 'utf8'), { filename: name }).runInThisContext()`

/** Makes a script a function, as Node's own modules are to V8. */
export function wrap(file: string): void {
  writeFileSync(file, `(function (module, exports, require) {${readFileSync(file, 'utf8')}\n})`)
}

/** Whether a script keeps its remarks, of which the bundler's own name the file that each part is from. */
export type Kept = { remarks?: boolean }

/** Writes what `contents` and all it imports come to. */
export async function script(
  contents: string,
  outfile: string,
  plugins: Plugin[],
  { remarks = false }: Kept = {},
): Promise<Metafile> {
  const options = {
    stdin: { contents, resolveDir: ROOT, sourcefile: 'tranche.ts' },
    absWorkingDir: ROOT,
    outfile,
    plugins,
    external: LEFT_OUT,
    bundle: true,
    // A node_modules that is a link to one elsewhere gives the same names, and so the same bytes.
    preserveSymlinks: true,
    platform: 'node',
    format: 'cjs',
    // Some packages' main file (jsonc-parser's) hides its requires from a bundler; their ES modules do not.
    mainFields: ['module', 'main'],
    target: `node${process.versions.node}`,
    // Only a checkout asks where its files are; the executable carries them.
    define: { 'import.meta.dirname': '__dirname' },
    // A script that starts from a code cache cannot import(): every lazy import becomes a require.
    supported: { 'dynamic-import': false },
    // The licences are beside the executable.
    legalComments: 'none',
    // A process keeps the text of whatever it has loaded, comments included. Names stay, for anyone who reads a stack.
    // Lines stay short, because Node prints the one in which an error ended the process.
    minifyWhitespace: !remarks,
    lineLimit: LINE_CHARS,
    logLevel: 'warning',
    metafile: true,
  } satisfies BuildOptions
  const { metafile } = await build(options)
  writeFileSync(outfile, inAscii(readFileSync(outfile, 'utf8')))
  return metafile
}

const LINE_CHARS = 500

/**
 * With one letter beyond ASCII in it, V8 keeps a script at two bytes a letter. esbuild leaves those in expressions to
 * match.
 */
const inAscii = (text: string): string =>
  text.replace(/[^\0-\x7F]/g, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`)
