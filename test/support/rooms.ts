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
  'http',
  'keys',
  'lanes',
  'log',
  'machine',
  'plain-file',
  'price',
  'resources',
  'store',
  'version',
  'webhook',
  'whole-file',
]

/** What a command may use: those, and what commands share. */
const COMMAND = [...BELOW_CLI, 'cli', 'cli/context', 'cli/database', 'cli/terminal']

/**
 * Who may import whom. A room is a file of src without its ending, else its folder; the first that matches counts.
 * "types of" allows type imports alone. Packages and Node's own modules are free except where `packages` lists them.
 */
export const ROOMS: Record<string, { may: string[]; packages?: string[] }> = {
  core: { may: ['core'], packages: ['decimal.js'] },
  'engine/slot-reserve': { may: ['core', 'engine/slot-reserve'], packages: [] },
  'engine/pass': { may: ['core', 'engine/slot-reserve', 'types of store', 'types of machine'], packages: [] },
  'engine/sandbox': {
    may: ['core', 'engine/pass', 'engine/slot-reserve', 'types of store', 'types of machine'],
  },
  'engine/backtest': { may: ['core', 'engine/backtest', 'engine/slot-reserve'], packages: [] },
  billing: { may: ['core', 'billing', 'types of store'], packages: ['node:crypto'] },
  copy: { may: ['billing', 'core', 'copy', 'store'], packages: ['node:crypto'] },
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
      'version',
      'types of store',
      'types of machine',
      'types of log',
    ],
  },
  webhook: { may: ['core', 'version', 'webhook', 'types of store', 'types of http'] },
  price: { may: ['core', 'plain-file', 'price', 'types of store'] },
  // The demonstration plays the simulated partner, and no other command leans on either.
  cli: { may: COMMAND },
  // The only one that knows which stores there are.
  'cli/database': { may: ['machine', 'store', 'store/postgres', 'store/sqlite'], packages: [] },
  'cli/context': { may: ['machine', 'store', 'cli/database'] },
  'cli/terminal': { may: ['core', 'cli/terminal', 'types of cli/context', 'types of store'] },
  'cli/init': { may: [...COMMAND, 'cli/init'] },
  'cli/partner-sim': { may: [...COMMAND, 'cli/partner-sim'] },
  'cli/demo': { may: [...COMMAND, 'cli/demo', 'cli/partner-sim'] },
  'cli/program': {
    may: [
      'core',
      'store',
      'cli',
      'cli/context',
      'cli/demo',
      'cli/init',
      'cli/partner-sim',
      'cli/terminal',
      'version',
    ],
  },
  main: { may: ['core', 'store', 'cli', 'cli/program', 'machine', 'types of cli/context'] },
  machine: { may: ['core'] },
  keys: { may: ['core', 'types of machine', 'types of store'], packages: ['node:crypto'] },
  lanes: { may: [], packages: [] },
  log: { may: ['core'] },
  resources: { may: [] },
  version: { may: [] },
  'plain-file': { may: ['core'], packages: ['node:fs'] },
  'whole-file': {
    may: ['core', 'plain-file'],
    packages: ['node:crypto', 'node:fs', 'node:fs/promises', 'node:path'],
  },
}
