// The house rules as data and as readers of files: rooms, imports, functions and lines.

import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

// The functions of a file and their lengths, read as text, for the test of the house rules.

/**
 * The functions with a block body. The formatter puts a body's closing brace at the indentation of the line that opens
 * it, so no parser is needed. `whole` counts all lines of a function, the closures inside it included; `own` counts the
 * lines that are in no function inside it.
 */
export function functionsOf(text: string): { head: string; own: number; whole: number }[] {
  const lines = text.split('\n')
  const spans = lines.flatMap((line, start) => {
    const opens =
      /^(\s*)(?!\s|(?:\} )?(?:if|for|while|switch|catch|else|try|do)\b).*(?:=>|\)(?:: [^=]+)?) \{$/.exec(line)
    if (!opens) return []
    const length = lines.slice(start + 1).findIndex((other) => other.startsWith(`${opens[1]}}`))
    return [{ head: line.trim(), start, end: start + 1 + length }]
  })
  return spans.map(({ head, start, end }) => {
    const inside = spans.filter((other) => other.start > start && other.end < end)
    const covered = new Set(inside.flatMap((other) => range(other.start, other.end)))
    const whole = end - start + 1
    return { head, own: whole - covered.size, whole }
  })
}

const range = (from: number, to: number): number[] =>
  Array.from({ length: to - from + 1 }, (_, i) => from + i)

// The imports between the files of this tree, read as text, for the test of the house rules.

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

/** A circle for each import that closes one, as the files on its way. */
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

// Lines of comments and of guides that are too long, for the test of the house rules.

const LINE_CHARS_MAX = 120

/** As `file:line`. A line without a space to break it at, such as an address, may have any length. */
const tooLong = (file: string, lines: readonly string[], counts: (line: string) => boolean): string[] =>
  lines.flatMap((line, at) =>
    line.length > LINE_CHARS_MAX && counts(line) && /\S \S/.test(line.replace(/^\s*\S{1,3} +/, ''))
      ? [`${file}:${at + 1}`]
      : [],
  )

export const longComments = (file: string, text: string): string[] =>
  tooLong(file, text.split('\n'), (line) => /^\s*(\/\/|\/\*|\*) /.test(line.replace('/**', '/*')))

/** Leaves out tables, headings, code, and program output between `<!-- NAME -->` and `<!-- end -->`. */
export function longProse(file: string, text: string): string[] {
  let inCode = false
  let isGenerated = false
  return tooLong(file, text.split('\n').map(prose), () => true)

  function prose(line: string): string {
    if (/^\s*```/.test(line)) inCode = !inCode
    if (line.startsWith('<!-- ')) isGenerated = line !== '<!-- end -->'
    return inCode || isGenerated || /^\s*[|#]/.test(line) ? '' : line
  }
}

// The rooms of src, for the test of the house rules.

/** The rooms below the command line. */
const BELOW_CLI = [
  'billing',
  'copy',
  'core',
  'engine/backtest',
  'engine/backtest-savings',
  'engine/pass',
  'engine/sandbox',
  'engine/slot-reserve',
  'http',
  'keys',
  'lanes',
  'log',
  'machine',
  'outgoing-call',
  'plain-file',
  'price',
  'resources',
  'store',
  'webhook',
  'whole-file',
]

/** Imports of a command: those, and the modules that commands share. */
const COMMAND = [...BELOW_CLI, 'cli', 'cli/context', 'cli/terminal']

/**
 * Allowed imports. A room is a file of src without its ending, else its folder; the first match counts. "types of"
 * allows type imports alone. Packages and Node's own modules are free except where `packages` lists them.
 */
export const ROOMS: Record<string, { may: string[]; packages?: string[] }> = {
  core: { may: ['core'], packages: ['decimal.js'] },
  'engine/slot-reserve': { may: ['core'], packages: [] },
  'engine/pass': {
    may: ['core', 'engine/slot-reserve', 'types of store', 'types of machine'],
    packages: [],
  },
  'engine/sandbox': {
    may: ['core', 'engine/pass', 'engine/slot-reserve', 'types of store', 'types of machine'],
  },
  'engine/backtest': { may: ['core', 'engine/slot-reserve'], packages: [] },
  'engine/backtest-savings': { may: ['core', 'engine/backtest'], packages: [] },
  billing: { may: ['core', 'billing', 'types of store'], packages: ['node:crypto'] },
  copy: { may: ['billing', 'core', 'store'], packages: ['node:crypto'] },
  'store/postgres': {
    may: ['core', 'store', 'store/postgres', 'lanes', 'plain-file', 'resources', 'whole-file'],
  },
  'store/sqlite': {
    may: ['addon', 'core', 'store', 'store/sqlite', 'lanes', 'plain-file', 'resources', 'whole-file'],
  },
  store: { may: ['core', 'store'], packages: ['node:crypto'] },
  http: {
    may: [
      'core',
      'billing',
      'http',
      'keys',
      'lanes',
      'resources',
      'types of store',
      'types of machine',
      'types of log',
    ],
  },
  webhook: { may: ['core', 'outgoing-call', 'resources', 'webhook', 'types of store', 'types of http'] },
  price: { may: ['core', 'outgoing-call', 'plain-file', 'price', 'types of store'] },
  cli: { may: COMMAND },
  // The only room that knows which stores there are.
  'cli/context': { may: ['machine', 'store', 'store/postgres', 'store/sqlite', 'core'], packages: [] },
  'cli/terminal': { may: ['core', 'types of cli/context', 'types of store'] },
  'cli/init': { may: [...COMMAND, 'cli/init'] },
  'cli/trial': { may: [...COMMAND, 'cli/trial'] },
  'cli/demo': { may: [...COMMAND, 'cli/demo'] },
  'cli/program': {
    may: [
      'core',
      'store',
      'cli',
      'cli/context',
      'cli/demo',
      'cli/init',
      'cli/terminal',
      'cli/trial',
      'resources',
    ],
  },
  main: { may: ['core', 'store', 'cli', 'cli/program', 'machine', 'types of cli/context'] },
  machine: { may: ['core'] },
  keys: { may: ['core', 'types of machine', 'types of store'], packages: ['node:crypto'] },
  lanes: { may: [], packages: [] },
  log: { may: ['core'] },
  'outgoing-call': { may: ['core'] },
  addon: { may: ['core', 'resources'] },
  resources: { may: [] },
  'plain-file': { may: ['core'], packages: ['node:fs'] },
  'whole-file': {
    may: ['core', 'plain-file'],
    packages: ['node:crypto', 'node:fs', 'node:fs/promises', 'node:os', 'node:path'],
  },
}
