// The parts of --help besides options: the groups of commands and, for every command, an example or two, and exit codes
// with a meaning of their own.

import type { Command } from 'commander'
import { usage } from '../core/problem.ts'
import { NO_OPTIONS } from './options.ts'

/** The width at which help wraps when the terminal's is unknown. */
export const HELP_COLUMNS = 80

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

/** The examples of each command, by its words. */
const EXAMPLES: Record<string, string[]> = {
  '': ['demo', 'status --help'],
  init: [
    'init',
    'init --dry-run',
    'init --yes --price-feed median --partner acme --name "Acme Exchange"',
    'init --undo --dry-run',
  ],
  serve: ['serve --tick-every 60s', 'serve --host 0.0.0.0 --port 8443 --tls-cert cert.pem --tls-key key.pem'],
  tick: ['--db /var/lib/tranche/tranche.db tick', 'tick --price 64250.50 --dry-run'],
  partner: ['partner list'],
  'partner create': ['partner create acme --name "Acme Exchange"'],
  'partner list': ['partner list --json'],
  'partner show': ['partner show acme'],
  'partner disable': ['partner disable acme', 'partner disable acme --last-minimum 2026-12'],
  'partner enable': ['partner enable acme'],
  'partner hold': ['partner hold acme'],
  'partner release': ['partner release acme'],
  'partner set-tier': ['partner set-tier acme growth --from 2030-01', 'partner set-tier acme none'],
  'partner set-min-tranche': ['partner set-min-tranche acme 10.00'],
  key: ['key list acme'],
  'key create': ['key create acme --env test', 'key create acme --env live --label prod --expires-in 90d'],
  'key list': ['key list acme'],
  'key rotate': ['key rotate key_0123456789abcdef --overlap 24h'],
  'key revoke': ['key revoke key_0123456789abcdef'],
  tier: ['tier list'],
  'tier list': ['tier list'],
  'tier set': ['tier set growth --rate-bps 30 --from 2030-01'],
  user: ['user list acme --env live'],
  'user list': ['user list acme --env live'],
  'user show': ['user show acme user-1 --env live'],
  'user erase': ['user erase acme user-1 --env live'],
  plan: ['plan list --partner acme'],
  'plan list': ['plan list --partner acme --env test'],
  'plan bring-back': ['plan bring-back --dry-run', 'plan bring-back --partner acme --env live'],
  'plan show': ['plan show plan-1'],
  execution: ['execution list --stuck'],
  'execution list': [
    'execution list --partner acme --since 24h',
    'execution list --status failed --limit 20 --json',
    'execution list --order A-1001',
  ],
  'execution show': ['execution show exec_019b8b9a2c007a1b9c2d3e4f5a6b7c8d'],
  'execution late-fills': ['execution late-fills'],
  'execution accept-late': [
    'execution accept-late exec_019b8b9a2c007a1b9c2d3e4f5a6b7c8d',
    'execution accept-late exec_019b8b9a2c007a1b9c2d3e4f5a6b7c8d --reason "seen on the statement of the venue"',
  ],
  'execution dismiss-late': [
    'execution dismiss-late exec_019b8b9a2c007a1b9c2d3e4f5a6b7c8d --reason "sent twice"',
    'execution dismiss-late --partner acme --reason "an error of typing"',
  ],
  'execution cancel': [
    'execution cancel exec_019b8b9a2c007a1b9c2d3e4f5a6b7c8d --reason "the venue is closed"',
  ],
  trade: ['trade --help'],
  'trade adjust': [
    'trade adjust exec_019b8b9a2c007a1b9c2d3e4f5a6b7c8d --usd 9.50 --btc 0.00014785 --reason "fee counted twice"',
  ],
  'trade record': [
    'trade record --partner acme --plan plan-1 --order A-17 --usd 9.50 --btc 0.00014785 --reason "lost with the disk"',
    'trade record --partner acme --plan plan-1 --order A-17 --usd 9.50 --btc 0.00014785 --at 2026-01-31T08:00:00Z --reason "lost"',
    'trade record --partner acme --plan plan-1 --order A-17 --usd 9.50 --btc 0.00014785 --idempotency-key live:plan-1:2026-01-05T00:00:00.000Z:2 --reason "lost"',
  ],
  price: ['price list'],
  'price fetch': ['price fetch --price-feed static:64250.50'],
  'price list': ['price list --json'],
  'price import': ['price import prices.csv'],
  'price remove': ['price remove --at 2026-01-05T00:00:00.000Z'],
  backtest: [
    'backtest prices.csv',
    'backtest prices.csv --frequency weekly --chart weekly.svg',
    'backtest prices.csv --since 2022-01-01 --until 2023-01-01 --fee-bps 25 --spread-bps 2',
  ],
  webhook: ['webhook show acme --env live'],
  'webhook show': ['webhook show acme --env live'],
  'webhook resume': ['webhook resume acme --env live'],
  'webhook test': ['webhook test acme --env test'],
  'webhook listen': [
    'webhook listen --forward-to http://localhost:9000 --key-file acme.key',
    'webhook listen --forward-to http://localhost:9000 --key-file acme.key --secret-file webhook.secret --url https://tranche.example',
  ],
  'webhook verify': ['webhook verify --signature "$SIGNATURE" --secret-file secret.txt < body.json'],
  sandbox: ['sandbox advance acme 7d'],
  'sandbox advance': ['sandbox advance acme 12h', 'sandbox advance acme 7d --price 64000'],
  'sandbox fire': ['sandbox fire acme plan-1'],
  'sandbox reset': ['sandbox reset acme --yes'],
  billing: ['billing show --month 2026-01'],
  'billing show': ['billing show --month 2026-01 --partner acme', 'billing show --year 2026 --by partner'],
  'billing export': [
    'billing export --month 2026-01 --report trades --output trades.csv',
    'billing export --from 2026-01 --to 2026-03 --totals',
    'billing export --year 2026 --report partners',
    'billing export --month 2026-01 --format hledger --settings billing.json --output january.journal',
  ],
  'billing invoice': [
    'billing invoice --partner acme --month 2026-01 --settings billing.json --output acme-2026-01.html',
    'billing invoice --partner acme --month 2026-01 --format md',
  ],
  'billing issue': ['billing issue --month 2026-01 --settings billing.json'],
  'billing credit': [
    "billing credit R-2026-0001 --usd 12.50 --reason 'charged twice' --settings billing.json",
  ],
  'billing issued': ['billing issued --year 2026'],
  'billing adjustments': ['billing adjustments --month 2026-01'],
  'billing reconcile': [
    'billing reconcile --month 2026-01',
    'billing reconcile --from 2026-01 --to 2026-03',
    'billing reconcile --month 2026-01 --partner acme --against orders.csv',
  ],
  status: ['status', 'status --json'],
  check: ['check', 'check --json > findings.json'],
  audit: ['audit --since 2026-01-01 --until 2026-02-01 --partner acme', 'audit --format csv > audit.csv'],
  backup: ['backup /var/backups/tranche.db --force', 'backup /var/backups --keep 14'],
  restore: ['restore /var/backups/tranche.db'],
  freeze: ['freeze --reason "the disk is failing"'],
  resume: ['resume'],
  copy: [
    'copy --from tranche.db --to postgres://tranche@db.example/tranche --seal',
    'copy --from postgres://tranche@db.example/tranche --to tranche.db',
  ],
  health: ['health', 'health --ready'],
  migrate: ['migrate --status'],
  docs: [
    'docs operations',
    'docs levers#a-key-has-leaked',
    'docs examples/python/partner.py > partner.py',
    'docs --examples examples',
    'docs --deploy deploy',
  ],
  openapi: ['openapi > openapi.json'],
  completion: ['completion bash > ~/.local/share/bash-completion/completions/tranche'],
  version: ['version --json'],
  demo: ['demo', 'demo --seed 7'],
}

const EXITS: Record<string, string> = {
  '': '0 done, 1 failed, 2 usage, 3 found something or some items failed, 4 not found, 5 conflict, 11 the database is locked, 12 the database is newer than this program, 130 interrupted.',
  init: '0 everything is in place, 1 a step failed: it prints what was done.',
  serve: '0 stopped by SIGTERM with every call answered, 130 stopped by Ctrl-C.',
  tick: '0 also when another tick is running or a webhook failed, 3 some plans failed.',
  'partner create': '5 this name is taken.',
  'key rotate': '5 the key has ended already.',
  'tier set': '5 the month is over.',
  'plan bring-back': '1 the clock is in doubt, and nothing was changed.',
  'execution accept-late': '5 it is accepted already, or there are several reports to choose from.',
  'execution dismiss-late':
    '4 there is no late fill to decide on; 5 there are several, and neither --report nor --all.',
  'execution cancel': '5 it is no longer open.',
  'trade adjust': '5 no report is recorded, or no purchase can have such amounts.',
  'trade record':
    '4 there is no such plan, 5 the order is on record with other figures, or waits among the late fills.',
  'price fetch': '1 the feed gave no price.',
  'price import': '5 another import is running.',
  'webhook test': '1 it was not delivered.',
  'webhook listen': '1 the service refuses the key, 130 stopped by Ctrl-C.',
  'webhook verify': '3 the signature does not match.',
  'billing export': '5 the file exists and --force is missing.',
  'billing invoice':
    '1 the settings are wrong, 4 the partner was not there yet, 5 the file exists and --force is missing.',
  'billing reconcile':
    '1 the file cannot be read exactly, 3 the reports, or the two lists of orders, do not agree.',
  check: '3 something is wrong; the findings name it.',
  backup:
    '1 the copy is damaged or cannot be written, 4 the folder of copies is not there, 5 the file exists and --force is missing.',
  restore: '1 the copy is damaged, 5 --force is missing, 11 another process has the database open.',
  resume: '5 the database has moved.',
  copy: '1 the copy differs or the check finds faults, 5 the target is taken or the source has moved.',
  health: '0 it is up (--ready: ready), 1 it is not.',
  migrate: '12 the database is newer than this program.',
  docs: '2 there is no such topic, 5 a file of --examples or --deploy exists.',
  demo: '1 the ledger did not add up.',
}

/** Adds the program's commands in the order of the groups, each under its group's heading. */
export function addInGroups(program: Command, commands: readonly Command[]): void {
  const grouped = GROUPS.flatMap(({ heading, commands: names }) => {
    const members = commands.filter((command) => names.includes(command.name()))
    members.sort((a, b) => names.indexOf(a.name()) - names.indexOf(b.name()))
    return members.map((command) => command.helpGroup(heading))
  })
  for (const command of new Set([...grouped, ...commands])) program.addCommand(command)
  // The parser's own commands, and any without a group.
  program.commandsGroup(GROUPS.at(-1)?.heading ?? '')
  program.helpCommand('help [command]', 'show the help of a command')
}

export function addExamples(program: Command): void {
  everyCommand(program, (command, path) => {
    // Made only when it is asked for, so that a normal start takes no time for it.
    command.addHelpText('after', ({ error }) => helpText(path.join(' '), command, error))
  })
}

function helpText(name: string, command: Command, error: boolean): string {
  const [examples = [], exits] = [EXAMPLES[name], EXITS[name]]
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
      throw usage(`'${path.join(' ')}' has no command '${word}'.`)
    }
    path.push(word)
    command = next
  }
  return isAsked ? [...path, '--help', ...unknown] : null
}

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

/** Visits a command and all its subcommands. The path of the given one is empty; `key create` has two words. */
export function everyCommand(
  command: Command,
  visit: (command: Command, path: readonly string[]) => void,
  path: readonly string[] = [],
): void {
  visit(command, path)
  for (const inner of command.commands) everyCommand(inner, visit, [...path, inner.name()])
}
