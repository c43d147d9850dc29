// The program as its users run it: the executable, in a process of its own.

import { type ChildProcessWithoutNullStreams, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, globSync, mkdirSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import type { TestContext } from 'node:test'
import { setTimeout as pause, setTimeout as wait } from 'node:timers/promises'
import { acquireLock } from '../../src/store/sqlite/file/locks.ts'
import { settingIn } from './database.ts'
import { freePort } from './within.ts'

// The compile cache of processes that tests start: the first one fills it for all others. A process that runs
// TypeScript from it, without tsx, starts in half the time. Where coverage is measured, they bypass it and compile
// anew: V8 counts less precisely in cached code.

const { NODE_V8_COVERAGE } = process.env
export const COMPILED: Record<string, string> =
  NODE_V8_COVERAGE === undefined
    ? { NODE_COMPILE_CACHE: join(import.meta.dirname, '../../dist/.compiled') }
    : { NODE_V8_COVERAGE }
/** The time limit of a measured process for writing its coverage. */
const WRITING_MS = 3_000

// The executable under test: built on first use, and again when any of its sources has changed.

const ROOT = join(import.meta.dirname, '../..')
const DIST = join(ROOT, 'dist')

export const EXECUTABLE = join(DIST, process.platform === 'win32' ? 'tranche.exe' : 'tranche')
await ensureBuilt()

/** Builds it if need be; of several test processes at once, one does. */
async function ensureBuilt(): Promise<void> {
  mkdirSync(DIST, { recursive: true })
  let release = acquireLock(join(DIST, '.building'))
  for (; release === null; release = acquireLock(join(DIST, '.building'))) await wait(50)
  try {
    if (isStale()) execFileSync(process.execPath, [join(ROOT, 'bin/build.ts')], { stdio: 'pipe' })
  } finally {
    release()
  }
}

/** Whether the executable is missing, or older than any of its sources. */
function isStale(): boolean {
  if (!existsSync(EXECUTABLE)) return true
  const made = statSync(EXECUTABLE).mtimeMs
  const sources = [
    ...['src/**/*.{ts,js,css}', 'sql/**/*.sql', 'docs/**/*.md', 'docs/examples/*/*.{mjs,py}', '*.md'],
    ...['deploy/**', 'bin/*.ts', 'package.json', 'package-lock.json', 'tsconfig.json'],
  ]
  return globSync(sources, { cwd: ROOT }).some((file) => statSync(join(ROOT, file)).mtimeMs > made)
}

// The Python behind `python3`. Where that is a version manager's script, each start of it takes a tenth of a second of
// processor time before Python begins, so the path is looked up once.

const ITSELF = 'import sys; print(sys.executable)'

export const PYTHON = execFileSync('python3', ['-c', ITSELF], { encoding: 'utf8' }).trim()

/** How to start it: the file to run and the arguments that come first. */
export type Program = readonly [file: string, ...first: string[]]
export const PROGRAM: Program = [EXECUTABLE]
/** The source of this checkout on the Node of the tests: for tests that have to reach into the process. */
export const SOURCE: Program = [process.execPath, join(import.meta.dirname, '../../bin/tranche.mjs')]

/**
 * Caches that the first start fills for all others: the addon that the executable unpacks, and Node's compiled code.
 */
export const CACHE = { TRANCHE_CACHE: join(dirname(EXECUTABLE), '.cache'), ...COMPILED }

export type Started = {
  child: ChildProcessWithoutNullStreams
  out: () => string
  err: () => string
  /** Resolves with the first line of stderr, JSON or not, that contains `text`; rejects when the process ends first. */
  line: (text: string) => Promise<string>
  /** Resolves with stdout once it contains `enough`, or satisfies it; rejects when the process ends first. */
  prints: (enough: string | ((out: string) => boolean)) => Promise<string>
  /** The exit code, or the name of the signal that ended it, once its output is read to the end. */
  ended: Promise<number | string>
  /** Whether it is known to have ended, with a code or by a signal. */
  hasEnded: () => boolean
}
/** A test, or anything else with an end: a file of tests, say. */
type Ending = { after: (end: () => Promise<void>) => void }
type StartOptions = { env?: Record<string, string | undefined>; cwd: string; program?: Program }

/**
 * Starts the program with only the cache, the database and `env` in its environment; it is killed when the test ends.
 */
export function start(
  t: Ending,
  argv: readonly string[],
  { env = {}, cwd, program = PROGRAM }: StartOptions,
): Started {
  const [file, ...first] = program
  const child = spawn(file, [...first, ...argv], {
    cwd,
    env: { ...CACHE, ...settingIn(cwd), ...env },
    stdio: 'pipe',
  })
  let out = ''
  let err = ''
  child.stdout.setEncoding('utf8').on('data', (text) => (out += text))
  child.stderr.setEncoding('utf8').on('data', (text) => (err += text))
  const ended = once(child, 'close').then(([code, signal]) => code ?? signal)
  t.after(async () => {
    if (NODE_V8_COVERAGE !== undefined && child.kill('SIGTERM'))
      await Promise.race([ended, pause(WRITING_MS)])
    child.kill('SIGKILL')
    await ended
  })

  /** Resolves with the result of `find`, called again whenever the stream has more data. */
  const wait = <T>(stream: Readable, find: () => T | undefined, what: string): Promise<T> =>
    new Promise((resolve, reject) => {
      const look = (): void => {
        const found = find()
        if (found === undefined) return
        stream.off('data', look)
        resolve(found)
      }
      stream.on('data', look)
      ended.then((code) => reject(new Error(`ended with ${code} before ${what}: ${out}${err}`)))
      look()
    })

  return {
    child,
    out: () => out,
    err: () => err,
    ended,
    hasEnded: () => child.exitCode !== null || child.signalCode !== null,
    line: (text) => wait(child.stderr, () => wholeLines(err).find((line) => line.includes(text)), text),
    prints(enough) {
      const satisfied = typeof enough === 'string' ? () => out.includes(enough) : () => enough(out)
      return wait(child.stdout, () => (satisfied() ? out : undefined), String(enough))
    },
  }
}

const wholeLines = (text: string): string[] => text.split('\n').slice(0, -1)

/** Runs the program to its end. */
export async function finish(
  t: Ending,
  argv: readonly string[],
  options: StartOptions,
): Promise<{ code: number | string; out: string; err: string }> {
  const started = start(t, argv, options)
  started.child.stdin.end()
  const code = await started.ended
  return { code, out: started.out(), err: started.err() }
}

/**
 * Starts `serve` on a free port, on a new database where there is none, and resolves with its address once it listens;
 * `opsUrl` is empty without --ops-listen.
 */
export async function startServe(
  t: Ending,
  argv: readonly string[],
  options: StartOptions,
): Promise<Started & { url: string; opsUrl: string }> {
  const started = start(t, ['serve', '--port', '0', ...argv], options)
  const { url, ops_url: opsUrl = '' } = JSON.parse(await started.line('"msg":"listening"'))
  return { ...started, url, opsUrl }
}

/** The options by which `serve` also listens for operations, on a free port. */
export const WITH_OPS = ['--ops-listen', '127.0.0.1:0'] as const

/** Starts a `serve` that is too quiet to report its address: it is polled, with `headers`, until it is ready. */
export async function startQuietServe(
  t: Ending,
  argv: readonly string[],
  { headers = {}, ...options }: StartOptions & { headers?: Record<string, string> },
): Promise<Started & { url: string }> {
  const port = await freePort()
  const started = start(t, ['serve', '--port', String(port), ...argv], options)
  const url = `http://127.0.0.1:${port}`
  const isReady = () =>
    fetch(`${url}/readyz`, { headers }).then(
      ({ ok }) => ok,
      () => false,
    )
  while (!(await isReady())) {
    if (started.hasEnded()) throw new Error(`ended with ${await started.ended}: ${started.err()}`)
    await pause(20)
  }
  return { ...started, url }
}

// The shell blocks of a page, run in bash as somebody would paste them.

/**
 * Runs a script that stops at the first failure; with `jobs`, background jobs are numbered as at a prompt. `tranche` is
 * the executable, before any other on PATH.
 */
export async function paste(
  t: Pick<TestContext, 'after'>,
  script: string,
  { cwd, env, jobs = false }: { cwd: string; env: NodeJS.ProcessEnv; jobs?: boolean },
): Promise<{ code: number | null; out: string; err: string }> {
  const path = `${dirname(EXECUTABLE)}:${env.PATH ?? process.env.PATH}`
  const bash = spawn('bash', ['-euo', 'pipefail', ...(jobs ? ['-m'] : [])], {
    cwd,
    env: { ...CACHE, ...env, PATH: path },
    stdio: 'pipe',
    // A session of its own: its background jobs take no terminal from the tests.
    detached: true,
  })
  t.after(() => bash.exitCode ?? bash.kill('SIGKILL'))
  bash.stdin.end(script)
  const ended = new Promise<number | null>((resolve) => bash.once('close', resolve))
  const [out, err, code] = await Promise.all([text(bash.stdout), text(bash.stderr), ended])
  return { code, out, err }
}
