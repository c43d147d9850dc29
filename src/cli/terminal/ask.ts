// The question before a dangerous change.

import { Problem } from '../../core/problem.ts'
import { visible } from '../../core/visible-text.ts'
import type { Cli } from '../context.ts'

/** Whether there is a person to ask: a terminal both ways, and no script that wants JSON. */
export const mayAsk = ({ streams, globals }: Cli): boolean =>
  Boolean(streams.in.isTTY && streams.err.isTTY && !globals().json)

/** Ctrl-C at a question: neither yes nor no. */
export class Interrupted extends Error {
  constructor() {
    super('Interrupted; nothing was changed.')
  }
}

/** Asks for a line. At the end of the terminal's input it is empty. Throws Interrupted when Ctrl-C is pressed. */
export async function askLine(cli: Cli, question: string): Promise<string> {
  const { createInterface } = await import('node:readline/promises')
  const terminal = createInterface({ input: cli.streams.in, output: cli.streams.err })
  const ended = new Promise<string>((resolve) => terminal.once('close', () => resolve('')))
  const interrupted = new Promise<never>((_, reject) => {
    terminal.once('SIGINT', () => {
      // The terminal echoes no line break for Ctrl-C.
      cli.streams.err.write('\n')
      reject(new Interrupted())
    })
  })
  try {
    const answer = await Promise.race([terminal.question(`${visible(question)} `), interrupted, ended])
    return answer.trim()
  } finally {
    terminal.close()
  }
}

/**
 * Asks on a terminal only; a script is taken at its word. Throws usage unless the answer is yes, and Interrupted when
 * Ctrl-C is pressed. The end of the terminal's input is an answer too: not a yes.
 */
export async function confirmOnTerminal(cli: Cli, question: string): Promise<void> {
  if (!mayAsk(cli)) return
  const answer = await askLine(cli, `${question} [y/N]`)
  if (!isYes(answer)) throw new Problem('usage', 'Nothing was changed.')
}

export const isYes = (answer: string): boolean => /^y(es)?$/i.test(answer)
