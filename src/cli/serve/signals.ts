// What serve does at each signal: stop, read its certificate again, or nothing.

import type { Cli } from '../context.ts'
import { EXIT } from '../shared/exit-codes.ts'
import { stopGently } from '../terminal/signals.ts'

/** Resolves at the first signal to stop; a second one, of either kind, ends the process at once. */
export function stopSignal(cli: Cli): Promise<NodeJS.Signals> {
  const { signal } = stopGently(() => process.exit(EXIT.interrupted))
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => {
      if (signal.reason === 'SIGINT') cli.exitWith(EXIT.interrupted)
      resolve(signal.reason)
    })
  })
}

/** Does `reload` at SIGHUP, which is also what a terminal sends when it is closed, and nothing at SIGUSR2. */
export function outliveSignals(reload: () => void): void {
  process.on('SIGHUP', reload)
  process.on('SIGUSR2', () => {})
}
