// demo: some simulated weeks against the real service, and a summary, for a first look.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Command } from 'commander'
import type { Cli } from '../context.ts'
import { EXIT } from '../exit-codes.ts'
import { wholeNumber } from '../options.ts'
import { createPaint, note, print, STOP_OR_HANG_UP, stopGently } from '../terminal.ts'

type DemoOptions = { seed: number; keep: boolean }

export function demoCommand(cli: Cli): Command {
  return new Command('demo')
    .description('simulated weeks of purchases in a throw-away database, and a summary')
    .option(
      '--seed <number>',
      'another synthetic price path and another partner',
      wholeNumber(0, 999_999_999),
      1,
    )
    .option('--keep', 'keep the database and say where it is', false)
    .action((options: DemoOptions) => demo(cli, options))
}

async function demo(cli: Cli, { seed, keep }: DemoOptions): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'tranche-demo-'))
  const remove = () => rmSync(folder, { recursive: true, force: true })
  const endNow = (): never => {
    remove()
    process.exit(EXIT.interrupted)
  }
  const stop = stopGently(endNow, STOP_OR_HANG_UP)
  let isKept = false
  try {
    const [{ playStory }, { readAccount }, { nextCommands, programName, showAccount, started }] =
      await Promise.all([import('./play.ts'), import('./account.ts'), import('./show.ts')])
    const file = join(folder, 'tranche.db')
    const options = { file, seed, streams: cli.streams, signal: stop.signal }
    const account = await playStory(options, readAccount)
    stop.signal.throwIfAborted()
    isKept = keep
    const { db, color } = cli.globals()
    const printed = {
      ...account,
      database: keep ? file : null,
      commands: nextCommands(programName(started()), { db, cwd: process.cwd() }),
    }
    const words = await showAccount(printed, createPaint(cli.streams.out, color))
    print(cli, printed, () => words)
    if (!account.ledger.ok) cli.exitWith(EXIT.failed)
  } catch (error) {
    if (!stop.signal.aborted) throw error
    note(cli, 'Interrupted; the throw-away database is gone.')
    cli.exitWith(EXIT.interrupted)
  } finally {
    stop.release()
    if (!isKept) remove()
  }
}
