// From argv to a command to an exit code.

import { Command, CommanderError } from 'commander'
import { auditCommand } from './cli/audit.ts'
import { backtestCommand } from './cli/backtest.ts'
import { billingCommand } from './cli/billing.ts'
import { type Cli, createCli, dbOption, type Globals, print, type Streams } from './cli/cli.ts'
import { demoCommand } from './cli/demo.ts'
import { executionCommand } from './cli/execution.ts'
import { EXIT, failureOf } from './cli/exit.ts'
import { checkCommand, migrateCommand, statusCommand } from './cli/health.ts'
import { keyCommand } from './cli/key.ts'
import { partnerCommand } from './cli/partner.ts'
import { planCommand } from './cli/plan.ts'
import { priceCommand } from './cli/price.ts'
import { serveCommand } from './cli/serve.ts'
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
  build(program, cli)
  try {
    warnOfUnknownVariables(program, env, streams)
    await program.parseAsync(argv, { from: 'user' })
    return exitCode
  } catch (error) {
    return report(error, argv.includes('--json'), streams)
  }
}

function build(program: Command, cli: Cli): void {
  const { out, err } = cli.streams
  program
    .description('Recurring Bitcoin purchases with careful timing, over one SQLite file')
    .addOption(dbOption())
    .option('--json', 'answer with one JSON document', false)
    .option('--no-color', 'never colour the output')
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
    billingCommand(cli),
    statusCommand(cli),
    checkCommand(cli),
    auditCommand(cli),
    migrateCommand(cli),
    versionCommand(cli),
    demoCommand(cli),
  ]
  for (const command of commands) program.addCommand(command)
  everyCommand(program, (command) =>
    command.exitOverride().configureOutput({
      writeOut: (text) => out.write(text),
      writeErr: (text) => {
        if (!program.opts<Globals>().json) err.write(text)
      },
    }),
  )
}

function versionCommand(cli: Cli): Command {
  return new Command('version').description('the version of this program').action(() => {
    print(cli, { version: VERSION, node: process.versions.node }, () => VERSION)
  })
}

function everyCommand(command: Command, apply: (command: Command) => void): void {
  apply(command)
  for (const inner of command.commands) everyCommand(inner, apply)
}

/** A misspelt variable would otherwise be a setting silently not made. */
function warnOfUnknownVariables(program: Command, env: NodeJS.ProcessEnv, { err }: Streams): void {
  const known = new Set<string | undefined>(['TRANCHE_CACHE', 'TRANCHE_WEBHOOK_SECRET'])
  everyCommand(program, (command) => {
    for (const option of command.options) known.add(option.envVar)
  })
  for (const name of Object.keys(env)) {
    if (name.startsWith('TRANCHE_') && !known.has(name))
      err.write(`warning: ${name} is not a setting of tranche\n`)
  }
}

function report(error: unknown, json: boolean, { err }: Streams): number {
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return EXIT.done
    // Without a command the parser shows the help, and has no message of its own.
    const isHelp = error.code === 'commander.help'
    const message = isHelp ? 'Name a command; --help lists them.' : error.message.replace(/^error: /, '')
    if (json) err.write(`${JSON.stringify({ error: { code: 'usage', message } })}\n`)
    return EXIT.usage
  }
  const { exitCode, code, message } = failureOf(error)
  err.write(json ? `${JSON.stringify({ error: { code, message } })}\n` : `error: ${message}\n`)
  return exitCode
}

/** Runs this process's own command line. */
export async function main(): Promise<void> {
  const { stdout: out, stderr: err, stdin } = process
  // A reader that has seen enough (`| head`) is no failure.
  out.on('error', (error: NodeJS.ErrnoException) =>
    process.exit(error.code === 'EPIPE' ? EXIT.done : EXIT.failed),
  )
  // Nobody reads the complaint: the exit code has to do.
  err.on('error', () => {})
  const streams = { out, err, in: stdin }
  process.exitCode = await run(process.argv.slice(2), { streams, machine: realMachine, env: process.env })
}
