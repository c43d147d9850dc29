// Command lines in a process of their own, and in this one where the test sets the clock.

import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { join } from 'node:path'
import { type Readable, Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import type { TestContext } from 'node:test'
import type { Machine } from '../../src/machine.ts'
import { run } from '../../src/main.ts'

export const PROGRAM = join(import.meta.dirname, '../../bin/tranche.mjs')

export type Child = ChildProcessByStdio<null, Readable, Readable>
export type Outcome = { code: number | null; out: string; err: string }

/** Starts the program; it is gone at the latest when the test ends. */
export function startCommand(t: Pick<TestContext, 'after'>, args: readonly string[]): Child {
  const child = spawn(process.execPath, [PROGRAM, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  t.after(() => child.kill('SIGKILL'))
  return child
}

export async function outcomeOf(child: Child): Promise<Outcome> {
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  const [out, err, code] = await Promise.all([text(child.stdout), text(child.stderr), ended])
  return { code, out, err }
}

export const runCommand = (t: Pick<TestContext, 'after'>, args: readonly string[]): Promise<Outcome> =>
  outcomeOf(startCommand(t, args))

/** Runs a command line in this process, in a world with the given machine. */
export async function runHere(args: readonly string[], machine: Machine): Promise<Outcome> {
  const [out, err] = [capture(), capture()]
  const code = await run(args, { streams: { out, err, in: process.stdin }, machine, env: {} })
  return { code, out: out.text(), err: err.text() }
}

function capture(): Writable & { text: () => string } {
  const chunks: string[] = []
  const stream = new Writable({
    write(chunk, _, done) {
      chunks.push(String(chunk))
      done()
    },
  })
  return Object.assign(stream, { text: () => chunks.join('') })
}
