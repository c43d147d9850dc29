// The parts of --help besides options: the groups of commands and, for every command, an example or two, and exit codes
// with a meaning of their own.

import type { Command } from 'commander'
import { Problem } from '../core/problem.ts'
import { NO_OPTIONS } from './options.ts'

/** The width at which help wraps when the terminal's is unknown. */
export const HELP_COLUMNS = 80

export type Help = { examples: string[]; exits?: string }

/** The commands by how often they are typed, in the order of `tranche --help`. */
export const GROUPS: readonly { heading: string; commands: readonly string[] }[] = [
  {
    heading: 'Every day:',
    commands: ['serve', 'tick', 'status', 'check', 'partner', 'key', 'plan', 'execution', 'billing'],
  },
  {
    heading: 'Now and then:',
    commands: [
      ...['init', 'health', 'docs', 'user', 'tier', 'trade', 'price', 'webhook', 'audit'],
      ...['backup', 'restore', 'freeze', 'resume', 'copy', 'migrate'],
    ],
  },
  {
    heading: 'For developers:',
    commands: ['demo', 'sandbox', 'backtest', 'openapi', 'completion', 'version', 'help'],
  },
]

/** Keyed by the words of the command. */
const HELP: Record<string, Help> = {
  init: {
    examples: [
      'init',
      'init --dry-run',
      'init --yes --price-feed median --partner acme --name "Acme Exchange"',
      'init --undo --dry-run',
    ],
    exits: '0 everything is in place, 1 a step failed: it prints what was done.',
  },
  serve: {
    examples: [
      'serve --tick-every 60s',
      'serve --host 0.0.0.0 --port 8443 --tls-cert cert.pem --tls-key key.pem',
    ],
    exits: '0 stopped by SIGTERM with every call answered, 130 stopped by Ctrl-C.',
  },
  tick: {
    examples: ['--db /var/lib/tranche/tranche.db tick', 'tick --price 64250.50 --dry-run'],
    exits: '0 also when another tick is running or a webhook failed, 3 some plans failed.',
  },
  partner: { examples: ['partner list'] },
  'partner create': {
    examples: ['partner create acme --name "Acme Exchange"'],
    exits: '5 this name is taken.',
  },
  'partner list': { examples: ['partner list --json'] },
  'partner show': { examples: ['partner show acme'] },
  'partner disable': { examples: ['partner disable acme', 'partner disable acme --last-minimum 2026-12'] },
  'partner enable': { examples: ['partner enable acme'] },
  'partner hold': { examples: ['partner hold acme'] },
  'partner release': { examples: ['partner release acme'] },
  'partner set-tier': {
    examples: ['partner set-tier acme growth --from 2030-01', 'partner set-tier acme none'],
  },
  'partner set-min-tranche': { examples: ['partner set-min-tranche acme 10.00'] },
  key: { examples: ['key list acme'] },
  'key create': {
    examples: ['key create acme --env test', 'key create acme --env live --label prod --expires-in 90d'],
  },
  'key list': { examples: ['key list acme'] },
  'key rotate': {
    examples: ['key rotate key_0123456789abcdef --overlap 24h'],
    exits: '5 the key has ended already.',
  },
  'key revoke': { examples: ['key revoke key_0123456789abcdef'] },
  tier: { examples: ['tier list'] },
  'tier list': { examples: ['tier list'] },
  'tier set': {
    examples: ['tier set growth --rate-bps 30 --from 2030-01'],
    exits: '5 the month is over.',
  },
  user: { examples: ['user list acme --env live'] },
  'user list': { examples: ['user list acme --env live'] },
  'user show': { examples: ['user show acme user-1 --env live'] },
  'user erase': { examples: ['user erase acme user-1 --env live'] },
  plan: { examples: ['plan list --partner acme'] },
  'plan list': { examples: ['plan list --partner acme --env test'] },
  'plan bring-back': {
    examples: ['plan bring-back --dry-run', 'plan bring-back --partner acme --env live'],
    exits: '1 the clock is in doubt, and nothing was changed.',
  },
  'plan show': { examples: ['plan show plan-1'] },
  execution: { examples: ['execution list --stuck'] },
  'execution list': {
    examples: [
      'execution list --partner acme --since 24h',
      'execution list --status failed --limit 20 --json',
      'execution list --order A-1001',
    ],
  },
  'execution show': { examples: ['execution show exec_019b8b9a2c007a1b9c2d3e4f5a6b7c8d'] },
  'execution late-fills': { examples: ['execution late-fills'] },
  'execution accept-late': {
    examples: [
      'execution accept-late exec_019b8b9a2c007a1b9c2d3e4f5a6b7c8d',
      'execution accept-late exec_019b8b9a2c007a1b9c2d3e4f5a6b7c8d --reason "seen on the statement of the venue"',
    ],
    exits: '5 it is accepted already, or there are several reports to choose from.',
  },
  'execution dismiss-late': {
    examples: [
      'execution dismiss-late exec_019b8b9a2c007a1b9c2d3e4f5a6b7c8d --reason "sent twice"',
      'execution dismiss-late --partner acme --reason "an error of typing"',
    ],
    exits: '4 there is no late fill to decide on; 5 there are several, and neither --report nor --all.',
  },
  'execution cancel': {
    examples: ['execution cancel exec_019b8b9a2c007a1b9c2d3e4f5a6b7c8d --reason "the venue is closed"'],
    exits: '5 it is no longer open.',
  },
  trade: { examples: ['trade --help'] },
  'trade adjust': {
    examples: [
      'trade adjust exec_019b8b9a2c007a1b9c2d3e4f5a6b7c8d --usd 9.50 --btc 0.00014785 --reason "fee counted twice"',
    ],
    exits: '5 no report is recorded, or no purchase can have such amounts.',
  },
  'trade record': {
    examples: [
      'trade record --partner acme --plan plan-1 --order A-17 --usd 9.50 --btc 0.00014785 --reason "lost with the disk"',
      'trade record --partner acme --plan plan-1 --order A-17 --usd 9.50 --btc 0.00014785 --at 2026-01-31T08:00:00Z --reason "lost"',
      'trade record --partner acme --plan plan-1 --order A-17 --usd 9.50 --btc 0.00014785 --idempotency-key live:plan-1:2026-01-05T00:00:00.000Z:2 --reason "lost"',
    ],
    exits:
      '4 there is no such plan, 5 the order is on record with other figures, or waits among the late fills.',
  },
  price: { examples: ['price list'] },
  'price fetch': {
    examples: ['price fetch --price-feed static:64250.50'],
    exits: '1 the feed gave no price.',
  },
  'price list': { examples: ['price list --json'] },
  'price import': { examples: ['price import prices.csv'], exits: '5 another import is running.' },
  'price remove': { examples: ['price remove --at 2026-01-05T00:00:00.000Z'] },
  backtest: {
    examples: [
      'backtest prices.csv',
      'backtest prices.csv --frequency weekly --chart weekly.svg',
      'backtest prices.csv --since 2022-01-01 --until 2023-01-01 --fee-bps 25 --spread-bps 2',
    ],
  },
  webhook: { examples: ['webhook show acme --env live'] },
  'webhook show': { examples: ['webhook show acme --env live'] },
  'webhook resume': { examples: ['webhook resume acme --env live'] },
  'webhook test': { examples: ['webhook test acme --env test'], exits: '1 it was not delivered.' },
  'webhook listen': {
    examples: [
      'webhook listen --forward-to http://localhost:9000 --key-file acme.key',
      'webhook listen --forward-to http://localhost:9000 --key-file acme.key --secret-file webhook.secret --url https://tranche.example',
    ],
    exits: '1 the service refuses the key, 130 stopped by Ctrl-C.',
  },
  'webhook verify': {
    examples: ['webhook verify --signature "$SIGNATURE" --secret-file secret.txt < body.json'],
    exits: '3 the signature does not match.',
  },
  sandbox: { examples: ['sandbox advance acme 7d'] },
  'sandbox advance': { examples: ['sandbox advance acme 12h', 'sandbox advance acme 7d --price 64000'] },
  'sandbox fire': { examples: ['sandbox fire acme plan-1'] },
  'sandbox reset': { examples: ['sandbox reset acme --yes'] },
  billing: { examples: ['billing show --month 2026-01'] },
  'billing show': {
    examples: ['billing show --month 2026-01 --partner acme', 'billing show --year 2026 --by partner'],
  },
  'billing export': {
    examples: [
      'billing export --month 2026-01 --report trades --output trades.csv',
      'billing export --from 2026-01 --to 2026-03 --totals',
      'billing export --year 2026 --report partners',
      'billing export --month 2026-01 --format hledger --settings billing.json --output january.journal',
    ],
    exits: '5 the file exists and --force is missing.',
  },
  'billing invoice': {
    examples: [
      'billing invoice --partner acme --month 2026-01 --settings billing.json --output acme-2026-01.html',
      'billing invoice --partner acme --month 2026-01 --format md',
    ],
    exits:
      '1 the settings are wrong, 4 the partner was not there yet, 5 the file exists and --force is missing.',
  },
  'billing issue': { examples: ['billing issue --month 2026-01 --settings billing.json'] },
  'billing credit': {
    examples: ["billing credit R-2026-0001 --usd 12.50 --reason 'charged twice' --settings billing.json"],
  },
  'billing issued': { examples: ['billing issued --year 2026'] },
  'billing adjustments': { examples: ['billing adjustments --month 2026-01'] },
  'billing reconcile': {
    examples: [
      'billing reconcile --month 2026-01',
      'billing reconcile --from 2026-01 --to 2026-03',
      'billing reconcile --month 2026-01 --partner acme --against orders.csv',
    ],
    exits: '1 the file cannot be read exactly, 3 the reports, or the two lists of orders, do not agree.',
  },
  status: { examples: ['status', 'status --json'] },
  check: {
    examples: ['check', 'check --json > findings.json'],
    exits: '3 something is wrong; the findings name it.',
  },
  audit: {
    examples: [
      'audit --since 2026-01-01 --until 2026-02-01 --partner acme',
      'audit --format csv > audit.csv',
    ],
  },
  backup: {
    examples: ['backup /var/backups/tranche.db --force', 'backup /var/backups --keep 14'],
    exits: '1 the copy is damaged, 4 there is no such folder, 5 the file exists and --force is missing.',
  },
  restore: {
    examples: ['restore /var/backups/tranche.db'],
    exits: '1 the copy is damaged, 5 --force is missing, 11 another process has the database open.',
  },
  freeze: { examples: ['freeze --reason "the disk is failing"'] },
  resume: { examples: ['resume'], exits: '5 the database has moved.' },
  copy: {
    examples: [
      'copy --from tranche.db --to postgres://tranche@db.example/tranche --seal',
      'copy --from postgres://tranche@db.example/tranche --to tranche.db',
    ],
    exits: '1 the copy differs or the check finds faults, 5 the target is taken or the source has moved.',
  },
  health: { examples: ['health', 'health --ready'], exits: '0 it is up (--ready: ready), 1 it is not.' },
  migrate: { examples: ['migrate --status'], exits: '12 the database is newer than this program.' },
  docs: {
    examples: [
      'docs operations',
      'docs levers#a-key-has-leaked',
      'docs examples/python/partner.py > partner.py',
      'docs --examples examples',
      'docs --deploy deploy',
    ],
    exits: '2 there is no such topic, 5 a file of --examples or --deploy exists.',
  },
  openapi: { examples: ['openapi > openapi.json'] },
  completion: { examples: ['completion bash > ~/.local/share/bash-completion/completions/tranche'] },
  version: { examples: ['version --json'] },
  demo: { examples: ['demo', 'demo --seed 7'], exits: '1 the ledger did not add up.' },
}

const OF_ALL: Help = {
  examples: ['demo', 'status --help'],
  exits:
    '0 done, 1 failed, 2 usage, 3 found something or some items failed, 4 not found, 5 conflict, ' +
    '11 the database is locked, 12 the database is newer than this program, 130 interrupted.',
}

/** The additions to the help of a command, given its words; the program itself has none. */
export const helpOf = (path: readonly string[]): Help | undefined =>
  path.length === 0 ? OF_ALL : HELP[path.join(' ')]

/** Adds the program's commands in the order of the groups, each under its group's heading. */
export function addInGroups(program: Command, commands: readonly Command[]): void {
  const grouped = GROUPS.flatMap(({ heading, commands: names }) => {
    const own = commands.filter((command) => names.includes(command.name()))
    own.sort((a, b) => names.indexOf(a.name()) - names.indexOf(b.name()))
    return own.map((command) => command.helpGroup(heading))
  })
  for (const command of new Set([...grouped, ...commands])) program.addCommand(command)
  // The parser's own commands, and any without a group.
  program.commandsGroup(GROUPS.at(-1)?.heading ?? '')
  program.helpCommand('help [command]', 'show the help of a command')
}

/** Adds examples and exit codes to the help of every command. */
export function addExamples(program: Command): void {
  everyCommand(program, (command, path) => {
    const help = helpOf(path)
    // Made only when it is asked for, so that a normal start takes no time for it.
    if (help) command.addHelpText('after', ({ error }) => helpText(help, command, error))
  })
}

function helpText({ examples, exits }: Help, command: Command, error: boolean): string {
  const title = examples.length === 1 ? 'Example:' : 'Examples:'
  const lines = ['', title, ...examples.map((example) => `  $ tranche ${example}`)]
  if (exits !== undefined) {
    const { getErrHelpWidth, getOutHelpWidth } = command.configureOutput()
    const width = (error ? getErrHelpWidth : getOutHelpWidth)?.() ?? HELP_COLUMNS
    lines.push('', command.createHelp().boxWrap(`Exit codes: ${exits}`, width))
  }
  return lines.join('\n')
}

// `tranche help WORDS`. The parser uses only the first word, and ignores one that it does not know.

/**
 * The words to parse in place of a request for help: for an existing command, its words and --help; for an unknown one,
 * the words about which the parser then complains. Null when no help is requested. Throws usage for a word after a
 * command that has no subcommands.
 */
export function askedHelp(program: Command, argv: readonly string[]): string[] | null {
  if (!argv.includes('help')) return null
  const { operands, unknown } = program.parseOptions([...argv])
  let command = program
  let isAsked = false
  const path: string[] = []
  for (const word of operands) {
    if (word === 'help' && !isAsked && command.commands.length > 0) {
      isAsked = true
      continue
    }
    const next = command.commands.find((one) => one.name() === word)
    if (!next) {
      if (!isAsked) return null
      if (command.commands.length > 0) return [...path, word]
      throw new Problem('usage', `'${path.join(' ')}' has no command '${word}'.`)
    }
    path.push(word)
    command = next
  }
  return isAsked ? [...path, '--help', ...unknown] : null
}

// Probable misspellings: options that do not exist, and variables that set nothing.

/** A missing required option may be there, but misspelt: the parser complains only about the missing one. */
export function misspelt(program: Command, argv: readonly string[], complaint: string): string {
  if (!/^error: required option/.test(complaint)) return ''
  const known = new Set(['--help'])
  everyCommand(program, ({ options }) => {
    for (const { long } of options) if (long) known.add(long)
  })
  const unknown = argv.find((word) => /^--\w/.test(word) && !known.has(word.split('=')[0] ?? ''))
  return unknown === undefined ? '' : ` (there is no option '${unknown}')`
}

/** Without this, a misspelt variable would silently set nothing. */
export function unknownVariables(program: Command, env: NodeJS.ProcessEnv): string[] {
  const known = new Set<string | undefined>(NO_OPTIONS)
  everyCommand(program, (command) => {
    for (const option of command.options) known.add(option.envVar)
  })
  return Object.keys(env).filter((name) => name.startsWith('TRANCHE_') && !known.has(name))
}

// A walk over the command tree.

/**
 * Visits a command and all its subcommands; the path of the given one is empty, and that of `key create` has two words.
 */
export function everyCommand(
  command: Command,
  visit: (command: Command, path: readonly string[]) => void,
  path: readonly string[] = [],
): void {
  visit(command, path)
  for (const inner of command.commands) everyCommand(inner, visit, [...path, inner.name()])
}
