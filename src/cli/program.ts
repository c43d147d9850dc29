// The whole command tree: every command of the program, and their common options.

import { Command, CommanderError, Help, type Option } from 'commander'
import { type Frozen, movedInWords } from '../core/frozen.ts'
import { visibleLines } from '../core/text.ts'
import { VERSION } from '../resources.ts'
import { holdsSecret, withoutSecrets } from '../store/address.ts'
import { auditCommand } from './billing/audit.ts'
import { billingCommand } from './billing/billing.ts'
import { onDatabase } from './command.ts'
import { type Cli, createCli, type Globals, type Streams } from './context.ts'
import { backupCommand } from './database/backup.ts'
import { copyCommand } from './database/copy.ts'
import { freezeCommand, resumeCommand } from './database/freeze.ts'
import { migrateCommand } from './database/migrate.ts'
import { restoreCommand } from './database/restore.ts'
import { demoCommand } from './demo/demo.ts'
import { EXIT } from './exit-codes.ts'
import { addExamples, addInGroups, everyCommand, HELP_COLUMNS } from './help.ts'
import { initCommand } from './init/init.ts'
import { dbOption, refuseEmpty, seenByAll } from './options.ts'
import { keyCommand } from './partners/key.ts'
import { partnerCommand } from './partners/partner.ts'
import { tierCommand } from './partners/tier.ts'
import { userCommand } from './partners/user.ts'
import { webhookCommand } from './partners/webhook.ts'
import { executionCommand } from './purchases/execution.ts'
import { planCommand } from './purchases/plan.ts'
import { priceCommand } from './purchases/price.ts'
import { tradeCommand } from './purchases/trade.ts'
import { completionCommand } from './reference/completion.ts'
import { docsCommand, openapiCommand } from './reference/docs.ts'
import { checkCommand } from './service/check.ts'
import { healthCommand } from './service/health.ts'
import { serveCommand } from './service/serve.ts'
import { statusCommand } from './service/status.ts'
import { tickCommand } from './service/tick.ts'
import { print, warn } from './terminal.ts'
import { backtestCommand } from './trial/backtest.ts'
import { sandboxCommand } from './trial/sandbox.ts'

/** The code of the error with which --version ends the parsing. */
export const VERSION_ASKED = 'tranche.version'

/**
 * `remark` is added to the parser's complaint; with --json, that complaint is one JSON document and nothing else.
 * `shell` is the beginning of a command line that needs no --db, `become` is called before a command names its
 * database.
 */
export function createProgram(
  options: Pick<Cli, 'streams' | 'machine' | 'exitWith' | 'endSoon'>,
  start: { remark: (complaint: string) => string; json: boolean; shell?: () => string; become?: () => void },
): { program: Command; cli: Cli } {
  const { remark, json, shell = () => 'tranche', become = () => {} } = start
  const program = new Command('tranche')
  const globals = () => program.opts<Globals>()
  const self = () =>
    program.getOptionValueSource('db') === 'cli' ? onDatabase('tranche', globals().db) : shell()
  const onMoved = (context: Cli, frozen: Frozen): void => warn(context, movedInWords(frozen))
  const cli = createCli({ ...options, globals, self, onMoved, become })
  const { out, err } = cli.streams
  program
    .description('Recurring Bitcoin purchases with careful timing, over one SQLite file or PostgreSQL')
    .addOption(dbOption())
    .option('--json', 'answer with one JSON document', false)
    .option('--no-color', 'never colour the output')
    .option('--version', 'print the version')
    // Printed at once, as help is: --json may be anywhere on the line.
    .on('option:version', () => {
      throw new CommanderError(EXIT.done, VERSION_ASKED, VERSION)
    })
    .showHelpAfterError('Add --help to see what it takes.')
  program.hook('preAction', () => {
    if (program.getOptionValueSource('db') === 'cli' && holdsSecret(globals().db))
      warn(cli, seenByAll('--db'))
  })
  const commands = [
    initCommand(cli),
    serveCommand(cli),
    tickCommand(cli),
    partnerCommand(cli),
    keyCommand(cli),
    tierCommand(cli),
    userCommand(cli),
    planCommand(cli),
    executionCommand(cli),
    tradeCommand(cli),
    priceCommand(cli),
    backtestCommand(cli),
    webhookCommand(cli),
    sandboxCommand(cli),
    billingCommand(cli),
    statusCommand(cli),
    checkCommand(cli),
    auditCommand(cli),
    backupCommand(cli),
    copyCommand(cli),
    restoreCommand(cli),
    freezeCommand(cli),
    resumeCommand(cli),
    migrateCommand(cli),
    healthCommand(cli),
    docsCommand(cli),
    openapiCommand(cli),
    completionCommand(cli, program),
    versionCommand(cli),
    demoCommand(cli),
  ]
  addInGroups(program, commands)
  addExamples(program)
  everyCommand(program, (command) => {
    refuseEmpty(command)
    command
      .exitOverride()
      .configureHelp({ minWidthToWrap: WORDS_WIDTH_MIN, optionDescription })
      .configureOutput({
        writeOut: (text) => out.write(text),
        // Text wraps to the width of its stream, which is not always this process's own.
        getOutHelpWidth: () => widthOf(out),
        getErrHelpWidth: () => widthOf(err),
        // A pasted word may be anything, and may begin like an option.
        outputError: (text, write) =>
          write(visibleLines(withoutSecrets(text.replace(/\n$/, (end) => remark(text) + end)))),
        writeErr: (text) => {
          if (!json) err.write(text)
        },
      })
  })
  return { program, cli }
}

/** Beside long options, Commander would not wrap descriptions with less room than this. */
const WORDS_WIDTH_MIN = 10

/** Says which options a command does not run without. */
const optionDescription = (option: Option): string =>
  new Help().optionDescription(option) +
  (option.mandatory && option.defaultValue === undefined ? ' (required)' : '')

const widthOf = (stream: Streams['out']): number => (stream.isTTY && stream.columns) || HELP_COLUMNS

export const versionJson = () => ({ version: VERSION, node: process.versions.node })

function versionCommand(cli: Cli): Command {
  return new Command('version').description('the version of this program').action(() => {
    print(cli, versionJson(), () => VERSION)
  })
}
