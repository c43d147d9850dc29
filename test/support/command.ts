// Command lines run in this process, where a test sets the clock, the environment, the input and what is a terminal.

import { Readable, Writable } from 'node:stream'
import type { Command } from 'commander'
import { everyCommand } from '../../src/cli/help.ts'
import { createProgram } from '../../src/cli/program.ts'
import { type Machine, machine as thisMachine } from '../../src/machine.ts'
import { run } from '../../src/main.ts'

export type Outcome = { code: number; out: string; err: string }
export type Surroundings = {
  machine?: Machine
  env?: Record<string, string>
  input?: string | NodeJS.ReadableStream
  /** Which of the two outputs are a terminal. */
  terminals?: readonly ('stdout' | 'stderr')[]
}

/** Runs one command line to its end. Without more it has the real clock, an empty environment and no terminal. */
export async function runHere(
  argv: readonly string[],
  { machine = thisMachine, env = {}, input = '', terminals = [] }: Surroundings = {},
): Promise<Outcome> {
  const out = capture(terminals.includes('stdout'))
  const err = capture(terminals.includes('stderr'))
  const stdin = typeof input === 'string' ? Readable.from([Buffer.from(input)]) : input
  const code = await run(argv, { streams: { out, err, in: stdin }, machine, endSoon: ofItsOwn, env })
  return { code, out: out.text(), err: err.text() }
}

/** What listens to signals and may be ended by a timer would end the tests with it. */
function ofItsOwn(): never {
  throw new Error('this command belongs in a process of its own (support/process.ts)')
}

/** The command tree itself, in which no command can hide. */
export function commandTree(): Command {
  const streams = { out: capture(false), err: capture(false), in: Readable.from([]) }
  return createProgram(
    { streams, machine: thisMachine, exitWith: () => {}, endSoon: () => {} },
    { remark: () => '', json: false },
  ).program
}

/** The words of every command of the tree, the program's own (none) included. */
export function everyPath(): string[][] {
  const paths: string[][] = []
  everyCommand(commandTree(), (_, path) => paths.push([...path]))
  return paths
}

/** A stream that keeps what is written to it. */
export function capture(isTTY: boolean): Writable & { isTTY: boolean; text: () => string } {
  const chunks: string[] = []
  const stream = new Writable({
    write(chunk, _, done) {
      chunks.push(String(chunk))
      done()
    },
  })
  return Object.assign(stream, { isTTY, text: () => chunks.join('') })
}
