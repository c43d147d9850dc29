// The whole command tree: every command under the program, and what they have in common.

import { Command, CommanderError } from 'commander'
import { visibleLines } from '../core/visible-text.ts'
import { holdsSecret, withoutSecrets } from '../store/address.ts'
import { type Seal, sealedWords } from '../store/copying/seal-words.ts'
import { VERSION } from '../version.ts'
import { auditCommand } from './audit.ts'
import { backtestCommand } from './backtest.ts'
import { backupCommand } from './backup.ts'
import { billingCommand } from './billing.ts'
import { checkCommand } from './check.ts'
import { completionCommand } from './completion.ts'
import { type Cli, createCli, type Globals, type Streams } from './context.ts'
import { copyCommand } from './copy.ts'
import { demoCommand } from './demo.ts'
import { docsCommand } from './docs.ts'
import { executionCommand } from './execution.ts'
import { healthCommand } from './health.ts'
import { initCommand } from './init.ts'
import { keyCommand } from './key.ts'
import { migrateCommand } from './migrate.ts'
import { openapiCommand } from './openapi.ts'
import { dbOption, seenByAll } from './options/database.ts'
import { refuseEmpty } from './options/refuse-empty.ts'
import { partnerCommand } from './partner.ts'
import { partnerSimCommand } from './partner-sim.ts'
import { planCommand } from './plan.ts'
import { priceCommand } from './price.ts'
import { restoreCommand } from './restore.ts'
import { sandboxCommand } from './sandbox.ts'
import { serveCommand } from './serve.ts'
import { everyCommand } from './shared/every-command.ts'
import { EXIT } from './shared/exit-codes.ts'
import { addExamples, addInGroups, HELP_COLUMNS } from './shared/help-text.ts'
import { onDatabase } from './shared/on-database.ts'
import { statusCommand } from './status.ts'
import { warn } from './terminal/print.ts'
import { tickCommand } from './tick.ts'
import { tierCommand } from './tier.ts'
import { tradeCommand } from './trade.ts'
import { userCommand } from './user.ts'
import { versionCommand } from './version.ts'
import { webhookCommand } from './webhook.ts'

/** The code of the error that --version ends the parsing with. */
export const VERSION_ASKED = 'tranche.version'

/** `remark` is added to the parser's complaint; with --json, that complaint is one JSON document and nothing else. */
export function createProgram(
  options: Pick<Cli, 'streams' | 'machine' | 'exitWith' | 'endSoon'>,
  { remark, json }: { remark: (complaint: string) => string; json: boolean },
): { program: Command; cli: Cli } {
  const program = new Command('tranche')
  const globals = () => program.opts<Globals>()
  const self = () =>
    program.getOptionValueSource('db') === 'cli' ? onDatabase('tranche', globals().db) : 'tranche'
  const onSealed = (told: Cli, seal: Seal): void => warn(told, sealedWords(seal))
  const cli = createCli({ ...options, globals, self, onSealed })
  const { out, err } = cli.streams
  program
    .description('Recurring Bitcoin purchases with careful timing, over one SQLite file or PostgreSQL')
    .addOption(dbOption())
    .option('--json', 'answer with one JSON document', false)
    .option('--no-color', 'never colour the output')
    .option('--version', 'print the version')
    // Said at once, as help is: --json may be anywhere on the line.
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
    partnerSimCommand(cli),
    billingCommand(cli),
    statusCommand(cli),
    checkCommand(cli),
    auditCommand(cli),
    backupCommand(cli),
    copyCommand(cli),
    restoreCommand(cli),
    migrateCommand(cli),
    healthCommand(cli),
    docsCommand(cli, program),
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
      .configureHelp({ minWidthToWrap: WORDS_WIDTH_MIN })
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

/** Beside long options there is less room for words than Commander would still wrap. */
const WORDS_WIDTH_MIN = 10

const widthOf = (stream: Streams['out']): number => (stream.isTTY && stream.columns) || HELP_COLUMNS
