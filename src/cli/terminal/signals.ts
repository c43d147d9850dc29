// Listens for signals to stop while a command has something to bring to an end.

/** Ctrl-C, and what a service manager sends. */
const STOP_SIGNALS = ['SIGINT', 'SIGTERM'] as const

type Options = {
  /** Also listen for the closing of the terminal. Only where something must be put right: it would undo `nohup`. */
  hangUp?: boolean
}

/** Calls `heard` at every signal to stop, until it is released. */
export function onStopSignal(
  heard: (signal: NodeJS.Signals) => void,
  { hangUp = false }: Options = {},
): { release: () => void } {
  const names: NodeJS.Signals[] = hangUp ? [...STOP_SIGNALS, 'SIGHUP'] : [...STOP_SIGNALS]
  for (const name of names) process.on(name, heard)
  return {
    release: () => {
      for (const name of names) process.off(name, heard)
    },
  }
}

/**
 * The first signal to stop aborts `signal`, with its name as the reason: what is under way is brought to an end. A
 * second one calls `endNow`, which ends the process at once.
 */
export function stopGently(
  endNow: () => never,
  options: Options = {},
): { signal: AbortSignal; release: () => void } {
  const control = new AbortController()
  const { release } = onStopSignal((name) => {
    if (control.signal.aborted) endNow()
    control.abort(name)
  }, options)
  return { signal: control.signal, release }
}
