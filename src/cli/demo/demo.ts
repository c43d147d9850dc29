// demo: some simulated weeks against the real service, and a summary, for a first look.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Command, Option } from 'commander'
import type { Cli } from '../context.ts'
import { EXIT } from '../exit-codes.ts'
import { wholeNumber } from '../options.ts'
import { createProgress, note, print, stopGently } from '../terminal.ts'
import type { Account } from './account.ts'
import { DAYS, WEEKS } from './storyline.ts'

type DemoOptions = { seed: number; keep: boolean }

export function demoCommand(cli: Cli): Command {
  return new Command('demo')
    .description(`${WEEKS} simulated weeks of purchases in a throw-away database, and a summary`)
    .addOption(
      new Option('--seed <number>', 'another synthetic price path and another partner')
        .argParser(wholeNumber(0, 999_999_999))
        .default(1),
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
  const stop = stopGently(endNow, { hangUp: true })
  let kept = false
  try {
    const file = join(folder, 'tranche.db')
    const account = await play(cli, { file, seed, signal: stop.signal })
    stop.signal.throwIfAborted()
    kept = keep
    await tell(cli, account, keep ? file : null)
    if (!account.ledger.ok) cli.exitWith(EXIT.failed)
  } catch (error) {
    if (!stop.signal.aborted) throw error
    note(cli, 'Interrupted; the throw-away database is gone.')
    cli.exitWith(EXIT.interrupted)
  } finally {
    stop.release()
    if (!kept) remove()
  }
}

async function play(
  cli: Cli,
  options: { file: string; seed: number; signal: AbortSignal },
): Promise<Account> {
  const [{ runDemo }, { readAccount }] = await Promise.all([import('./play.ts'), import('./account.ts')])
  const day = (share: number) => `day ${Math.min(DAYS, Math.floor(share * DAYS) + 1)} of ${DAYS}`
  const progress = createProgress(cli.streams, day)
  try {
    return await runDemo({ ...options, onProgress: progress.show }, readAccount)
  } finally {
    progress.clear()
  }
}

async function tell(cli: Cli, account: Account, file: string | null): Promise<void> {
  const { nextCommands, programName, showAccount, started } = await import('./show.ts')
  const { db, color } = cli.globals()
  const start = started()
  const commands = nextCommands(programName(start), { db, cwd: start.cwd })
  const words = await showAccount(account, { commands, file, color, out: cli.streams.out })
  print(cli, { ...account, database: file, commands }, () => words)
}
