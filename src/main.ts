// From argv to a command to an exit code.

import { Command, CommanderError } from 'commander'
import { auditCommand } from './cli/audit.ts'
import { backtestCommand } from './cli/backtest.ts'
import { backupCommand, restoreCommand } from './cli/backup.ts'
import { billingCommand } from './cli/billing.ts'
import { checkCommand } from './cli/check.ts'
import { completionCommand } from './cli/completion.ts'
import { type Cli, createCli, dbOption, type Globals, print, type Streams } from './cli/context.ts'
import { demoCommand } from './cli/demo.ts'
import { addExamples, HELP_COLUMNS } from './cli/examples.ts'
import { executionCommand } from './cli/execution.ts'
import { EXIT, failureOf } from './cli/exit-codes.ts'
import { healthCommand } from './cli/health.ts'
import { keyCommand } from './cli/key.ts'
import { openapiCommand } from './cli/openapi.ts'
import { partnerCommand } from './cli/partner.ts'
import { partnerSimCommand } from './cli/partner-sim.ts'
import { planCommand } from './cli/plan.ts'
import { priceCommand } from './cli/price.ts'
import { sandboxCommand } from './cli/sandbox.ts'
import { serveCommand } from './cli/serve.ts'
import { migrateCommand, statusCommand } from './cli/status.ts'
import { tickCommand } from './cli/tick.ts'
import { tierCommand } from './cli/tier.ts'
import { tradeCommand } from './cli/trade.ts'
import { userCommand } from './cli/user.ts'
import { webhookCommand } from './cli/webhook.ts'
import { type Machine, machine as realMachine } from './machine.ts'
import { VERSION } from './version.ts'

export type World = { streams: Streams; machine: Machine; env: NodeJS.ProcessEnv }

/** Runs one command line and returns the code to exit with. Never throws. */
export async function run(argv: readonly string[], { streams, machine, env }: World): Promise<number> {
  const program = new Command('tranche')
  let exitCode: number = EXIT.done
  const cli = createCli({
    streams,
    machine,
    globals: () => program.opts<Globals>(),
    exitWith: (code) => {
      exitCode = code
    },
  })
  build(program, cli, (text) => misspelt(program, argv, text))
  const json = argv.includes('--json')
  try {
    for (const name of unknownVariables(program, env)) {
      const text = `${name} is not a setting of tranche`
      // Before the words are parsed: --json is known only as a word.
      if (json) cli.warnings.push(text)
      else streams.err.write(`warning: ${text}\n`)
    }
    await program.parseAsync(argv, { from: 'user' })
    if (json && cli.warnings.length > 0) streams.err.write(`${JSON.stringify({ warnings: cli.warnings })}\n`)
    return exitCode
  } catch (error) {
    if (error instanceof CommanderError) error.message += misspelt(program, argv, error.message)
    return report(error, { json, warnings: cli.warnings }, streams)
  }
}

function build(program: Command, cli: Cli, remark: (text: string) => string): void {
  const { out, err } = cli.streams
  program
    .description('Recurring Bitcoin purchases with careful timing, over one SQLite file')
    .addOption(dbOption())
    .option('--json', 'answer with one JSON document', false)
    .option('--no-color', 'never colour the output')
    .version(VERSION, '--version', 'print the version')
    .showHelpAfterError('Add --help to see what it takes.')
  const commands = [
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
    restoreCommand(cli),
    migrateCommand(cli),
    healthCommand(cli),
    openapiCommand(cli),
    completionCommand(cli, program),
    versionCommand(cli),
    demoCommand(cli),
  ]
  for (const command of commands) program.addCommand(command)
  addExamples(program)
  everyCommand(program, (command) =>
    command.exitOverride().configureOutput({
      writeOut: (text) => out.write(text),
      // Text wraps by the stream it goes to, which is not always this process's own.
      getOutHelpWidth: () => widthOf(out),
      getErrHelpWidth: () => widthOf(err),
      outputError: (text, write) => write(text.replace(/\n$/, (end) => remark(text) + end)),
      writeErr: (text) => {
        if (!program.opts<Globals>().json) err.write(text)
      },
    }),
  )
}

const widthOf = (stream: Streams['out']): number => (stream.isTTY && stream.columns) || HELP_COLUMNS

function versionCommand(cli: Cli): Command {
  return new Command('version').description('the version of this program').action(() => {
    print(cli, { version: VERSION, node: process.versions.node }, () => VERSION)
  })
}

function everyCommand(command: Command, apply: (command: Command) => void): void {
  apply(command)
  for (const inner of command.commands) everyCommand(inner, apply)
}

/** A required option that is missing may be there, misspelt: the parser complains of it first, and of nothing else. */
function misspelt(program: Command, argv: readonly string[], complaint: string): string {
  if (!/^error: required option/.test(complaint)) return ''
  const known = new Set(['--help'])
  everyCommand(program, ({ options }) => {
    for (const { long } of options) if (long) known.add(long)
  })
  const unknown = argv.find((word) => /^--\w/.test(word) && !known.has(word.split('=')[0] ?? ''))
  return unknown === undefined ? '' : ` (there is no option '${unknown}')`
}

/** A misspelt variable would otherwise be a setting silently not made. */
function unknownVariables(program: Command, env: NodeJS.ProcessEnv): string[] {
  const known = new Set<string | undefined>(['TRANCHE_CACHE', 'TRANCHE_WEBHOOK_SECRET'])
  everyCommand(program, (command) => {
    for (const option of command.options) known.add(option.envVar)
  })
  return Object.keys(env).filter((name) => name.startsWith('TRANCHE_') && !known.has(name))
}

type Reporting = { json: boolean; warnings: readonly string[] }

function report(error: unknown, { json, warnings }: Reporting, { err }: Pick<Streams, 'err'>): number {
  const beside = warnings.length > 0 ? { warnings } : {}
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return EXIT.done
    // Without a command the parser shows the help, and has no message of its own.
    const isHelp = error.code === 'commander.help'
    const said = error.message.replace(/^error: /, '').replace(/\s*\n\s*/g, ' ')
    const message = isHelp ? 'Name a command; --help lists them.' : said
    if (json) err.write(`${JSON.stringify({ error: { code: 'usage', message }, ...beside })}\n`)
    return EXIT.usage
  }
  const { exitCode, code, message } = failureOf(error)
  err.write(json ? `${JSON.stringify({ error: { code, message }, ...beside })}\n` : `error: ${message}\n`)
  return exitCode
}

/** Runs this process's own command line. */
export async function main(): Promise<void> {
  // Node's own answer is to open its debugger, through which anybody on the machine runs code in this process.
  process.on('SIGUSR1', () => {})
  const { stdout: out, stderr: err } = process
  // A reader that has seen enough (`| head`) is no failure.
  out.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(EXIT.done)
    const unwritten = new Error(`${UNWRITTEN} (${error.message})`)
    process.exit(report(unwritten, { json: false, warnings: [] }, { err }))
  })
  // Nobody reads the complaint: the exit code has to do.
  err.on('error', () => {})
  const streams = {
    out,
    err,
    // Few commands read anything, and making the stream takes a start two milliseconds.
    get in() {
      return process.stdin
    },
  }
  process.exitCode = await run(process.argv.slice(2), { streams, machine: realMachine, env: process.env })
}

const UNWRITTEN =
  'the result could not be written, but what the command did is done; a key that nobody has seen is to be revoked'
