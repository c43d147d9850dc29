// Maps places of the program to the tests that run them, and measures each file's duration: once, by V8's coverage.
//
// Node removes the types of a file and moves nothing else, so V8's offsets are those of the source.

import { existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import ts from 'typescript-5'
import { runNode } from './tree.ts'

/**
 * `ms` includes loading. `idle` has, for each loaded file of the program, the ranges that did not run. `fails` names
 * the tests that fail without a bug, some because there is no executable.
 */
type Measured = { ms: number; idle: Record<string, number[]>; fails: string[] }

export type Tests = {
  /** The files of tests that run a place, quickest first. */
  runners: (file: string, offset: number) => string[]
  /** Their total duration. */
  msOf: (tests: readonly string[]) => number
  fails: string[]
}

type Source = { text: string; importers: readonly string[] }

/** Arguments of node before the names of tests that share one process. */
export const IN_ONE_PROCESS = [
  ...['--import', import.meta.resolve('../support/preload.ts')],
  ...['--test', '--test-isolation=none', '--test-reporter=tap'],
]

/**
 * Measures the tests missing in `list`, a JSON file that is valid as long as `made` is unchanged. `sources` are the
 * files of the program.
 */
export async function measureTests(
  tree: string,
  tests: readonly string[],
  sources: ReadonlyMap<string, Source>,
  { list, made, limitMs }: { list: string; made: string; limitMs: number },
): Promise<Tests> {
  const kept = existsSync(list) ? JSON.parse(readFileSync(list, 'utf8')) : {}
  const measured: Record<string, Measured> = kept.made === made ? kept.tests : {}
  const missing = tests.filter((test) => measured[test] === undefined).values()
  const work = async (): Promise<void> => {
    for (const test of missing) {
      measured[test] = await measure(tree, test, limitMs)
      mkdirSync(dirname(list), { recursive: true })
      writeFileSync(list, JSON.stringify({ made, tests: measured }))
    }
  }
  await Promise.all(Array.from({ length: availableParallelism() }, work))
  const runs = (test: string, { file, offset }: Place): boolean => {
    const idle = measured[test]?.idle[file]
    return idle?.every((from, at) => at % 2 === 1 || offset < from || offset >= (idle[at + 1] ?? 0)) ?? false
  }
  const msOf = (files: readonly string[]) => files.reduce((sum, file) => sum + (measured[file]?.ms ?? 0), 0)
  const runners = (file: string, offset: number): string[] => {
    const places = usesOf(sources, { file, offset })
    return tests
      .filter((test) => places.some((place) => runs(test, place)))
      .sort((a, b) => msOf([a]) - msOf([b]))
  }
  return { runners, msOf, fails: tests.flatMap((test) => measured[test]?.fails ?? []) }
}

async function measure(tree: string, test: string, limitMs: number): Promise<Measured> {
  const folder = mkdtempSync(join(tree, '../tmp/coverage-'))
  const begun = performance.now()
  // Node would take a process that a test starts for one of its own.
  const variables = { NODE_V8_COVERAGE: folder, NODE_TEST_CONTEXT: undefined }
  const { output } = await runNode(tree, [...IN_ONE_PROCESS, test], limitMs, undefined, variables)
  const ms = Math.round(performance.now() - begun)
  const fails = failuresIn(output, tree).map((failure) => failure.test)
  if (!/^ *ok \d+/m.test(output)) process.stderr.write(`no test of ${test} passes here\n`)
  const ran = new Map<string, Uint8Array>()
  for (const file of globSync('*.json', { cwd: folder })) {
    const report = reportIn(readFileSync(join(folder, file), 'utf8'))
    if (report) addRun(ran, tree, report)
  }
  rmSync(folder, { recursive: true })
  return { ms, fails, idle: Object.fromEntries([...ran].map(([file, bytes]) => [file, idleIn(bytes)])) }
}

export type Failure = { test: string; file: string | null; details: string }

/** The tests that failed, without those that only failed because a test inside them did. */
export function failuresIn(output: string, tree: string): Failure[] {
  return [...output.matchAll(/^( *)not ok \d+ - (.*)\n\1 {2}---\n([\s\S]*?)\n\1 {2}\.\.\.$/gm)]
    .filter(([, , , details = '']) => !details.includes("failureType: 'subtestsFailed'"))
    .map(([, , name = '', details = '']) => {
      const path = /location: '(.*?\.ts):/.exec(details)?.[1]
      if (path === undefined) return { test: name, file: null, details }
      const file = relative(tree, path)
      return { test: `${file}: ${name}`, file: file.endsWith('.test.ts') ? file : null, details }
    })
}

type Report = {
  result: {
    url: string
    functions: { ranges: { startOffset: number; endOffset: number; count: number }[] }[]
  }[]
  'source-map-cache'?: Record<string, unknown>
}

/** Null for the file of a process that was killed while writing it. */
function reportIn(text: string): Report | null {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** Adds the coverage of a process: a byte for each character of a file, 1 where it ran. */
function addRun(ran: Map<string, Uint8Array>, tree: string, report: Report): void {
  const root = pathToFileURL(`${tree}/src/`).href
  for (const { url, functions } of report.result.filter((one) => one.url.startsWith(root))) {
    const file = fileURLToPath(url).slice(tree.length + 1)
    const bytes = new Uint8Array(readFileSync(join(tree, file), 'utf8').length)
    // Code that a loader has rewritten has other offsets: all of it counts as run.
    if (report['source-map-cache']?.[url]) bytes.fill(1)
    else {
      const ranges = functions.flatMap((one) => one.ranges)
      ranges.sort((a, b) => b.endOffset - b.startOffset - (a.endOffset - a.startOffset))
      for (const { startOffset, endOffset, count } of ranges)
        bytes.fill(count > 0 ? 1 : 0, startOffset, endOffset)
    }
    const before = ran.get(file)
    ran.set(file, before ? bytes.map((byte, at) => byte | (before[at] ?? 0)) : bytes)
  }
}

function idleIn(bytes: Uint8Array): number[] {
  const edges: number[] = []
  for (const [at, byte] of bytes.entries()) if (byte !== (at === 0 ? 1 : bytes[at - 1])) edges.push(at)
  if (bytes.at(-1) === 0) edges.push(bytes.length)
  return edges
}

type Place = { file: string; offset: number }

/** Code at the top of a file runs whenever the file is loaded: the uses of its name count instead. */
function usesOf(sources: ReadonlyMap<string, Source>, place: Place, known = new Set<string>()): Place[] {
  const statement = topOf(sources, place)
  if (statement === 'import') return []
  if (statement === 'code') return [place]
  const key = `${place.file} ${statement.name}`
  if (known.has(key)) return []
  known.add(key)
  const uses = [place.file, ...(sources.get(place.file)?.importers ?? [])].flatMap((file) =>
    [...(sources.get(file)?.text ?? '').matchAll(new RegExp(`\\b${statement.name}\\b`, 'g'))]
      .filter(({ index }) => file !== place.file || index < statement.start || index >= statement.end)
      .flatMap(({ index }) => usesOf(sources, { file, offset: index }, known)),
  )
  return uses.length > 0 ? uses : [place]
}

/** Whether a place is in a function, or else in which constant of its file. */
function topOf(
  sources: ReadonlyMap<string, Source>,
  { file, offset }: Place,
): 'import' | 'code' | { name: string; start: number; end: number } {
  const source = ts.createSourceFile(file, sources.get(file)?.text ?? '', ts.ScriptTarget.ESNext, true)
  const has = (node: ts.Node): boolean => node.getStart(source) <= offset && offset < node.end
  const isInFunction = (node: ts.Node): boolean =>
    has(node) && (ts.isFunctionLike(node) || (ts.forEachChild(node, isInFunction) ?? false))
  const statement = source.statements.find(has)
  if (statement && ts.isImportDeclaration(statement)) return 'import'
  if (!statement || !ts.isVariableStatement(statement) || isInFunction(statement)) return 'code'
  const [declaration] = statement.declarationList.declarations
  if (!declaration || !ts.isIdentifier(declaration.name)) return 'code'
  return { name: declaration.name.text, start: statement.getStart(source), end: statement.end }
}
