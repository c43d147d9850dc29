// The planted bugs on file: each a diff that git applies, under a few words on what it breaks and what that would cost.

import { spawnSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import type { Store } from './finders.ts'

export const ROOT = join(import.meta.dirname, '../..')

/** `name` is that of the file, without its ending; `words` are what is above the diff. */
export type Mutant = { name: string; file: string; words: string; touched: string[] }

/** The planted bugs of a finder, in the order of their numbers. */
export const mutantsOf = (finder: string): Mutant[] =>
  globSync(join(import.meta.dirname, finder, '*.patch'))
    .sort()
    .map(read)

function read(file: string): Mutant {
  const text = readFileSync(file, 'utf8')
  return {
    name: basename(file, '.patch'),
    file,
    words: text.slice(0, text.indexOf('diff --git')).trim(),
    touched: [...text.matchAll(/^\+\+\+ b\/(.+)$/gm)].map(([, path = '']) => path),
  }
}

/** Where a planted bug shows: on a server when it lies in nothing else, else in a file. */
export const storeOf = ({ touched }: Pick<Mutant, 'touched'>): Store =>
  touched.every((file) => /^(?:src\/store|sql)\/postgres\//.test(file)) ? 'postgres' : 'sqlite'

/** What `git apply` has against a patch in a tree, or null when it has nothing and has applied it. */
export function apply(
  { file }: Mutant,
  tree: string,
  ...options: ('--check' | '--reverse')[]
): string | null {
  const { status, stderr } = spawnSync('git', ['apply', ...options, file], { cwd: tree, encoding: 'utf8' })
  return status === 0 ? null : stderr.trim() || 'git apply failed'
}
