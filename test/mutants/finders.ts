// What is sent to find planted bugs, and what its run is worth: found, survived, or a bug that never came to life.

/** How a process ended. A `code` of null: it was killed. */
export type Run = { code: number | null; output: string; timedOut: boolean }

/** `broken`: the bug did not run, so that nothing is proved. `first` is what the finder said first. */
export type Verdict = { kind: 'found' | 'survived' | 'broken'; first: string }

/** What a planted bug may be in. */
export type Store = 'sqlite' | 'postgres'

export type FinderName = 'contract' | 'copy' | 'simulate'

export type Finder = {
  /** The arguments of node, for a bug in what every store uses or in that of one. It may take so long. */
  args: (store: Store, limitMs: number) => string[]
  /** How long it may look for one, where nobody says and a run without a bug does not take long. */
  limitMs: number
  /** The first thing that a failing run found, null when it names none. */
  firstFinding: (output: string) => string | null
}

const LIMIT_MS = 60_000
/** The simulator ends a little before its time, so that it can say what it found. */
const SIMULATED = 0.9

export const CONTRACT: Record<Store, string> = {
  sqlite: 'test/store/sqlite.test.ts',
  postgres: 'test/store/postgres.server.test.ts',
}

/** Those that start no executable, which would have to be built anew for every bug. */
const COPY_TESTS = [
  'compare.test.ts',
  'copy.server.test.ts',
  'seal.server.test.ts',
  'stops.server.test.ts',
].map((name) => `test/copy/${name}`)

export const FINDERS: Record<FinderName, Finder> = {
  simulate: {
    args: (store, limitMs) => [
      '--import',
      'tsx',
      'test/simulation/simulate.ts',
      '--minutes',
      String((SIMULATED * limitMs) / 60_000),
      '--no-shrink',
      '--store',
      store,
    ],
    limitMs: LIMIT_MS,
    firstFinding: (output) => /^SEED=\d+ fails.*$/m.exec(output)?.[0] ?? null,
  },
  contract: {
    args: (store) => ['--import', 'tsx', '--test', '--test-reporter=tap', CONTRACT[store]],
    limitMs: LIMIT_MS,
    // Indented: a promise of the contract. At the margin is a file that did not even load.
    firstFinding: (output) => /^ {4}not ok \d+ - (.*)$/m.exec(output)?.[1] ?? null,
  },
  copy: {
    args: () => ['--import', 'tsx', '--test', '--test-reporter=tap', ...COPY_TESTS],
    // Servers are started, and databases copied many times.
    limitMs: 4 * LIMIT_MS,
    firstFinding: (output) => /^ *not ok \d+ - (?!.*\.test\.ts$)(.*)$/m.exec(output)?.[1] ?? null,
  },
}

/** Signs of a program that cannot run at all, which every finder notices. */
export const STILLBORN =
  /^.*(?:SyntaxError|ReferenceError|is not a function|ERR_MODULE_NOT_FOUND|Transform failed|syntax error|no such (?:column|table|function)|(?:column|relation|function) \S+ does not exist|has no column named|ON CONFLICT clause does not match|(?:Missing|Unknown) named parameter).*$/m

/** Whether a finding is there, and all that was said of it: the rest of the run would add nothing. */
export function isTold(finder: Finder, output: string): boolean {
  const first = finder.firstFinding(output)
  return first !== null && /^ *\.\.\.$/m.test(output.slice(output.indexOf(first)))
}

/** Judges a run on a planted bug. `typeErrors` is what the compiler has against it, if anything. */
export function judge(finder: Finder, run: Run, typeErrors: string | null): Verdict {
  if (typeErrors !== null) return { kind: 'broken', first: typeErrors }
  const stillborn = STILLBORN.exec(run.output)?.[0].trim()
  if (run.code !== 0 && stillborn !== undefined) return { kind: 'broken', first: stillborn }
  if (run.timedOut) return { kind: 'survived', first: 'not found in time' }
  if (run.code === 0) return { kind: 'survived', first: 'nothing noticed it' }
  const first = finder.firstFinding(run.output)
  if (first !== null) return { kind: 'found', first }
  return { kind: 'broken', first: `failed without a finding: ${run.output.trim().split('\n').at(-1) ?? ''}` }
}
