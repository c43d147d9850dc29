// The program as its users run it: a process of its own, from the source of this checkout or as the executable.

import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { TestContext } from 'node:test'

const ROOT = join(import.meta.dirname, '../..')

/** How to start it: the file to run and the arguments that come first. */
export type Program = readonly [file: string, ...first: string[]]
export const SOURCE: Program = [process.execPath, join(ROOT, 'bin/tranche.mjs')]

export type Started = {
  child: ChildProcessWithoutNullStreams
  out: () => string
  err: () => string
  /** Resolves with the first line of stderr, JSON or not, that contains `text`; rejects when the process ends first. */
  line: (text: string) => Promise<string>
  /** The exit code, or the name of the signal that ended it, once its output is read to the end. */
  ended: Promise<number | string>
}
type StartOptions = { env?: Record<string, string>; cwd: string; program?: Program }

/** Starts the program with nothing in its environment but `env`; it is killed when the test ends. */
export function start(
  t: Pick<TestContext, 'after'>,
  argv: readonly string[],
  { env = {}, cwd, program = SOURCE }: StartOptions,
): Started {
  const [file, ...first] = program
  const child = spawn(file, [...first, ...argv], { cwd, env, stdio: 'pipe' })
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

  return {
    child,
    out: () => out,
    err: () => err,
    ended,
    line: (text) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          const found = err
            .split('\n')
            .slice(0, -1)
            .find((line) => line.includes(text))
          if (found === undefined) return
          child.stderr.off('data', look)
          resolve(found)
        }
        child.stderr.on('data', look)
        ended.then((code) => reject(new Error(`ended with ${code} before ${text}: ${err}`)))
        look()
      }),
  }
}

/** Runs the program to its end. */
export async function finish(
  t: Pick<TestContext, 'after'>,
  argv: readonly string[],
  options: StartOptions,
): Promise<{ code: number | string; out: string; err: string }> {
  const started = start(t, argv, options)
  started.child.stdin.end()
  const code = await started.ended
  return { code, out: started.out(), err: started.err() }
}

/** Starts `serve` on a free port and resolves with its address once it listens. */
export async function startServe(
  t: Pick<TestContext, 'after'>,
  argv: readonly string[],
  options: StartOptions,
): Promise<Started & { url: string }> {
  const started = start(t, ['serve', '--port', '0', ...argv], options)
  const { url } = JSON.parse(await started.line('"msg":"listening"'))
  return { ...started, url }
}
