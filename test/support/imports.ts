// The imports between the files of this tree, read as text, for the test of the house rules.

import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

const ROOT = join(import.meta.dirname, '../..')

/** `target` is a file as a path from the root, or a module; `lazy` marks an import made while the program runs. */
export type Import = { target: string; typesOnly: boolean; lazy: boolean }

/** The imports of a file, its own files as paths from the root. */
export function importsOf(file: string): Import[] {
  const text = readFileSync(join(ROOT, file), 'utf8')
  const found: Import[] = []
  for (const [, names = '', name = ''] of text.matchAll(/^(?:import|export) ([^'"]*?) ?from '([^']+)'/gm)) {
    const each = /^\{([\s\S]*)\}$/
      .exec(names.trim())?.[1]
      ?.split(',')
      .map((part) => part.trim())
    const onlyTypes = each?.every((part) => part === '' || part.startsWith('type ')) ?? false
    found.push({
      target: resolve(file, name),
      typesOnly: names.startsWith('type ') || onlyTypes,
      lazy: false,
    })
  }
  for (const [, type, name = ''] of text.matchAll(/(typeof )?\bimport\(\s*'([^']+)'\s*\)/g)) {
    found.push({ target: resolve(file, name), typesOnly: type !== undefined, lazy: true })
  }
  return found
}

const resolve = (file: string, name: string): string =>
  name.startsWith('.') ? join(dirname(file), name) : name

/** The package that a module belongs to. */
export const packageOf = (target: string): string =>
  target
    .split('/')
    .slice(0, target.startsWith('@') ? 2 : 1)
    .join('/')

/** Everything reached from a file by imports that `follow` accepts, through files of the same folder: src or test. */
export function reached(from: string, follow: (seen: Import) => boolean): Set<string> {
  const seen = new Set([from])
  const [folder] = from.split('/')
  for (const file of seen) {
    if (!file.startsWith(`${folder}/`)) continue
    for (const found of importsOf(file)) if (follow(found)) seen.add(found.target)
  }
  return seen
}

/** One circle for each import that closes one, as the files on its way. */
export function circlesOf(graph: ReadonlyMap<string, readonly string[]>): string[] {
  const circles: string[] = []
  const done = new Set<string>()
  const walk = (file: string, way: readonly string[]): void => {
    const at = way.indexOf(file)
    if (at >= 0) circles.push([...way.slice(at), file].join(' -> '))
    if (at >= 0 || done.has(file)) return
    for (const target of graph.get(file) ?? []) walk(target, [...way, file])
    done.add(file)
  }
  for (const file of graph.keys()) walk(file, [])
  return circles
}
