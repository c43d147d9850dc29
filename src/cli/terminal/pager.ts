// Shows a long text on a terminal, through the user's own pager.

import { spawn } from 'node:child_process'
import type { Streams } from '../context.ts'

/** Options for `less` unless LESS is set, as git does it: colours are kept, and a text of one screen just stays. */
const LESS = 'FRX'

/** Shows the text through `command`, a line for a shell; without it, or if it cannot be run, writes it as it is. */
export async function page(out: Streams['out'], text: string, command: string): Promise<void> {
  if (!out.isTTY || command === '' || !(await pageThrough(command, text))) out.write(text)
}

/** Whether the pager could be run. */
function pageThrough(command: string, text: string): Promise<boolean> {
  // The keys that end a pager's wait are the pager's own.
  const ignore = () => {}
  process.on('SIGINT', ignore)
  return new Promise<boolean>((resolve) => {
    const env = { LESS, ...process.env }
    const pager = spawn(command, { shell: true, stdio: ['pipe', 'inherit', 'inherit'], env })
    pager.on('error', () => resolve(false))
    // 126 and 127 are a shell's own: it could not run the command, or there is none.
    pager.on('close', (code) => resolve(code !== 126 && code !== 127))
    // The user may leave it before the end.
    pager.stdin.on('error', ignore)
    pager.stdin.end(text)
  }).finally(() => process.off('SIGINT', ignore))
}
