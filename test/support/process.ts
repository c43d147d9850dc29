// The program as its users run it: the executable, in a process of its own.

import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { dirname, join } from 'node:path'
import type { Readable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import { COMPILED } from './compiled.ts'
import { settingIn } from './database.ts'
import { EXECUTABLE } from './executable.ts'
import { freePort } from './free-port.ts'

/** How to start it: the file to run and the arguments that come first. */
export type Program = readonly [file: string, ...first: string[]]
export const PROGRAM: Program = [EXECUTABLE]
/** The source of this checkout on the Node of the tests: for what has to reach into the process. */
export const SOURCE: Program = [process.execPath, join(import.meta.dirname, '../../bin/tranche.mjs')]

/**
 * What the first start leaves for all others: the addon that the executable unpacks, the source as Node compiles it.
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
/** A test, or what else ends: a file of tests, say. */
type Ending = { after: (end: () => Promise<void>) => void }
type StartOptions = { env?: Record<string, string | undefined>; cwd: string; program?: Program }

/**
 * Starts the program with nothing in its environment but the cache, the database and `env`; it is killed when the test
 * ends.
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
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text
  })
  const ended = once(child, 'close').then(([code, signal]) => code ?? signal)
  t.after(async () => {
    child.kill('SIGKILL')
    await ended
  })

  /** Resolves with what `find` finds, looking again whenever the stream has brought more. */
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

/** Starts a `serve` that is too quiet to say where it listens: it is asked, with `headers`, until it is ready. */
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
