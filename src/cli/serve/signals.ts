// What serve does at each signal: stop, read its certificate again, or nothing.

import type { Cli } from '../context.ts'
import { EXIT } from '../exit-codes.ts'

/** Resolves at the first signal to stop; a second one, of either kind, ends the process at once. */
export function stopSignal(cli: Cli): Promise<string> {
  return new Promise((resolve) => {
    let stopping = false
    const stop = (signal: NodeJS.Signals): void => {
      if (stopping) process.exit(EXIT.interrupted)
      stopping = true
      if (signal === 'SIGINT') cli.exitWith(EXIT.interrupted)
      resolve(signal)
    }
    process.on('SIGTERM', stop)
    process.on('SIGINT', stop)
  })
}

/** Does `reload` at SIGHUP, which is also what a terminal sends when it is closed, and nothing at SIGUSR2. */
export function outliveSignals(reload: () => void): void {
  process.on('SIGHUP', reload)
  process.on('SIGUSR2', () => {})
}
