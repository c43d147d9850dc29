// The question before a change that hurts.

import { Problem } from '../../core/problem.ts'
import type { Cli } from '../context.ts'

/** Whether there is a person to ask: a terminal both ways, and no script that wants JSON. */
export const mayAsk = ({ streams, globals }: Cli): boolean =>
  Boolean(streams.in.isTTY && streams.err.isTTY && !globals().json)

/** Asks on a terminal only; a script is taken at its word. Throws usage unless the answer is yes. */
export async function confirmOnTerminal(cli: Cli, question: string): Promise<void> {
  if (!mayAsk(cli)) return
  const { createInterface } = await import('node:readline/promises')
  const terminal = createInterface({ input: cli.streams.in, output: cli.streams.err })
  try {
    const answer = await terminal.question(`${question} [y/N] `)
    if (!/^y(es)?$/i.test(answer.trim())) throw new Problem('usage', 'Nothing was changed.')
  } finally {
    terminal.close()
  }
}
