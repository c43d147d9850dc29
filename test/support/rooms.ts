// The rooms of src, for the test of the house rules.

/** The rooms below the command line. */
export const BELOW_CLI = [
  'billing',
  'copy',
  'core',
  'engine/backtest',
  'engine/pass',
  'engine/sandbox',
  'engine/slot-reserve',
  'engine/window-starts',
  'http',
  'keys',
  'lanes',
  'log',
  'machine',
  'plain-file',
  'price',
  'resources',
  'store',
  'webhook',
  'whole-file',
]

/** What a command may use: those, and what commands share. */
const COMMAND = [...BELOW_CLI, 'cli', 'cli/context', 'cli/terminal']

/**
 * Who may import whom. A room is a file of src without its ending, else its folder; the first that matches counts.
 * "types of" allows type imports alone. Packages and Node's own modules are free except where `packages` lists them.
 */
export const ROOMS: Record<string, { may: string[]; packages?: string[] }> = {
  core: { may: ['core'], packages: ['decimal.js'] },
  'engine/slot-reserve': { may: ['core'], packages: [] },
  'engine/window-starts': { may: ['core'], packages: [] },
  'engine/pass': { may: ['core', 'engine/slot-reserve', 'types of store', 'types of machine'], packages: [] },
  'engine/sandbox': {
    may: ['core', 'engine/pass', 'engine/slot-reserve', 'types of store', 'types of machine'],
  },
  'engine/backtest': { may: ['core', 'engine/slot-reserve', 'engine/window-starts'], packages: [] },
  billing: { may: ['core', 'billing', 'types of store'], packages: ['node:crypto'] },
  copy: { may: ['billing', 'core', 'store'], packages: ['node:crypto'] },
  'store/postgres': {
    may: ['core', 'store', 'store/postgres', 'lanes', 'plain-file', 'resources', 'whole-file'],
  },
  'store/sqlite': {
    may: ['core', 'store', 'store/sqlite', 'lanes', 'plain-file', 'resources', 'whole-file'],
  },
  store: { may: ['core', 'store'], packages: ['node:crypto'] },
  http: {
    may: [
      'core',
      'billing',
      'http',
      'keys',
      'lanes',
      'resources',
      'types of store',
      'types of machine',
      'types of log',
    ],
  },
  webhook: { may: ['core', 'resources', 'webhook', 'types of store', 'types of http'] },
  price: { may: ['core', 'plain-file', 'price', 'types of store'] },
  // The demonstration plays the simulated partner, and no other command leans on either.
  cli: { may: COMMAND },
  // The only one that knows which stores there are.
  'cli/context': { may: ['machine', 'store', 'store/postgres', 'store/sqlite'], packages: [] },
  'cli/terminal': { may: ['core', 'types of cli/context', 'types of store'] },
  'cli/init': { may: [...COMMAND, 'cli/init'] },
  'cli/trial': { may: [...COMMAND, 'cli/trial'] },
  'cli/demo': { may: [...COMMAND, 'cli/demo', 'cli/trial'] },
  'cli/program': {
    may: [
      'core',
      'store',
      'cli',
      'cli/context',
      'cli/demo',
      'cli/init',
      'cli/terminal',
      'cli/trial',
      'resources',
    ],
  },
  main: { may: ['core', 'store', 'cli', 'cli/program', 'machine', 'types of cli/context'] },
  machine: { may: ['core'] },
  keys: { may: ['core', 'types of machine', 'types of store'], packages: ['node:crypto'] },
  lanes: { may: [], packages: [] },
  log: { may: ['core'] },
  resources: { may: [] },
  'plain-file': { may: ['core'], packages: ['node:fs'] },
  'whole-file': {
    may: ['core', 'plain-file'],
    packages: ['node:crypto', 'node:fs', 'node:fs/promises', 'node:path'],
  },
}
