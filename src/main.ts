// From argv to a command to an exit code.

import { fstatSync, writeSync } from 'node:fs'
import { isSea } from 'node:sea'
import { Writable } from 'node:stream'
import { CommanderError } from 'commander'
import type { Cli, Loss, Streams } from './cli/context.ts'
import { EXIT, failureOf } from './cli/exit-codes.ts'
import { askedHelp, misspelt, unknownVariables } from './cli/help.ts'
import { type Installed, useInstalled } from './cli/installed.ts'
import { refuseEmptyVariables } from './cli/options.ts'
import { createProgram, VERSION_ASKED, versionJson } from './cli/program.ts'
import { reasonInWords } from './core/problem.ts'
import { visible } from './core/text.ts'
import { type Machine, machine as realMachine } from './machine.ts'
import { withoutSecrets } from './store/address.ts'

type World = Pick<Cli, 'streams' | 'machine' | 'endSoon'> & {
  env: NodeJS.ProcessEnv
  /** Finds the service that is installed on this machine, for a command line that names no database. */
  installed?: typeof useInstalled
}

/** Runs one command line and returns the exit code. Never throws. */
export async function run(
  argv: readonly string[],
  { streams, machine, endSoon, env, installed }: World,
): Promise<number> {
  let exitCode: number = EXIT.done
  const exitWith = (code: number): void => {
    exitCode = code
  }
  const remark = (complaint: string): string => misspelt(program, argv, complaint)
  // The options are not parsed yet, so --json is found as a plain word.
  const json = argv.includes('--json')
  let service: Installed | null = null
  const here: Machine = { ...machine, osUser: () => service?.osUser ?? machine.osUser() }
  const shell = () => service?.self ?? 'tranche'
  const { program, cli } = createProgram(
    { streams, machine: here, exitWith, endSoon },
    { remark, json, shell, become: () => service?.become() },
  )
  try {
    refuseEmptyVariables(env)
    service = installed?.(argv, env) ?? null
    if (service && json) cli.warnings.push(service.words)
    else if (service) streams.err.write(`${visible(service.words)}\n`)
    for (const name of unknownVariables(program, env)) {
      const text = `${name} is not a setting of tranche`
      if (json) cli.warnings.push(text)
      else streams.err.write(`warning: ${visible(text)}\n`)
    }
    await program.parseAsync(askedHelp(program, argv) ?? argv, { from: 'user' })
    if (json && cli.warnings.length > 0) streams.err.write(`${JSON.stringify({ warnings: cli.warnings })}\n`)
    return exitCode
  } catch (error) {
    if (error instanceof CommanderError && error.code === VERSION_ASKED) {
      streams.out.write(`${json ? JSON.stringify(versionJson()) : versionJson().version}\n`)
      return EXIT.done
    }
    if (error instanceof CommanderError) error.message += remark(error.message)
    return report(error, { json, warnings: cli.warnings }, streams)
  }
}

type Reporting = { json: boolean; warnings: readonly string[] }

function report(error: unknown, { json, warnings }: Reporting, { err }: Pick<Streams, 'err'>): number {
  const beside = warnings.length > 0 ? { warnings } : {}
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return EXIT.done
    // Without a command the parser shows the help and has no message.
    const isHelp = error.code === 'commander.help'
    const words = withoutSecrets(error.message)
      .replace(/^error: /, '')
      .replace(/\s*\n\s*/g, ' ')
    const message = isHelp ? 'Name a command; --help lists them.' : words
    if (json) err.write(`${JSON.stringify({ error: { code: 'usage', message }, ...beside })}\n`)
    return EXIT.usage
  }
  const { exitCode, code, message: cause } = failureOf(error)
  const message = withoutSecrets(cause)
  err.write(
    json ? `${JSON.stringify({ error: { code, message }, ...beside })}\n` : `error: ${visible(message)}\n`,
  )
  return exitCode
}

export async function main(): Promise<void> {
  // By default Node would open its debugger, through which anybody on the machine could run code in this process.
  process.on('SIGUSR1', () => {})
  // Deprecations in packages concern whoever builds the executable and tests the source.
  process.noDeprecation = isSea()
  const out = wholeOutput(() => process.stdout, 1)
  const { stderr: err } = process
  const argv = process.argv.slice(2)
  let loss: Loss | null = null
  out.on('error', (error: NodeJS.ErrnoException) => {
    // A reader that closes the pipe early (`| head`) is not a failure.
    if (error.code === 'EPIPE' && loss === null) process.exit(EXIT.done)
    const unwritten = new Error(unwrittenBecause(error, loss))
    process.exit(report(unwritten, { json: argv.includes('--json'), warnings: [] }, { err }))
  })
  // Nobody reads stderr, so the exit code must suffice.
  err.on('error', () => {})
  const streams = {
    out,
    err,
    // Few commands read stdin, and opening the stream adds two milliseconds to a start.
    get in() {
      return process.stdin
    },
    shownOnce: (shown: Loss) => {
      loss = shown
    },
  }
  // This timer keeps nothing alive itself.
  const endSoon = (): void => void setTimeout(() => process.exit(), LINGER_MS).unref()
  const world = { streams, machine: realMachine, endSoon, env: process.env, installed: useInstalled }
  process.exitCode = await run(argv, world)
}

/** How long abandoned work may still take to end by itself. */
const LINGER_MS = 1_000

const unwrittenBecause = (error: Error, loss: Loss | null): string =>
  loss === null
    ? `the result could not be written (${reasonInWords(error)}); what the command has changed stays changed`
    : `nobody has seen ${loss.what} (${reasonInWords(error)}): ${loss.remedy}`

/** The descriptor's own stream; for a file, where Node's counts a partial write as complete, one that does not. */
function wholeOutput<S extends NodeJS.WritableStream>(usual: () => S, fd: number): S | Writable {
  return isFile(fd) ? fileOutput(fd) : usual()
}

const fileOutput = (fd: number): Writable =>
  new Writable({
    // A process may end right after its last output, so nothing is buffered.
    write(chunk: Buffer, _encoding, done) {
      try {
        for (let at = 0; at < chunk.length; ) at += writeSync(fd, chunk, at)
        done()
      } catch (error) {
        done(error as Error)
      }
    },
  })

function isFile(fd: number): boolean {
  try {
    return fstatSync(fd).isFile()
  } catch {
    // The parent process has closed it.
    return false
  }
}
