// init: sets a server up in one go: user, folders, settings, database, jobs, and the first partner with its key.

import { Command, Option } from 'commander'
import { usage } from '../../core/problem.ts'
import type { Cli } from '../context.ts'
import { envOption, priceFeedOption, slug } from '../options.ts'
import { pingOption } from '../service/ping.ts'
import type { InitOptions } from './dialogue.ts'

export function initCommand(cli: Cli): Command {
  return new Command('init')
    .description('set this machine up: user, folders, settings, database, jobs, first partner and key')
    .option('--yes', 'ask nothing')
    .option('--dry-run', 'say what it would do; do nothing')
    .option('--no-start', 'make no database, start nothing: for a machine whose database comes from a backup')
    .option('--undo', 'take the jobs and the program off this machine; the database and its backups stay')
    .addOption(
      new Option('--scheduler <how>', 'what runs the jobs; as root, by default what the machine has').choices(
        ['systemd', 'cron', 'none'],
      ),
    )
    .addOption(priceFeedOption().default(undefined))
    .addOption(pingOption())
    .option('--partner <slug>', 'the first partner', slug)
    .option('--name <text>', 'its name as shown')
    .addOption(envOption().default(undefined, 'test'))
    .action(async (given: InitOptions, command: Command) => {
      const { parent } = command
      const isNamed = parent?.getOptionValueSource('db') !== 'default'
      const { init, placeOf, undoInit } = await import('./dialogue.ts')
      const place = placeOf(isNamed ? cli.globals().db : null)
      if (!given.undo) return init(cli, place, given)
      // The settings, which may be loaded into the shell, name options of init as well.
      const named = Object.keys(given).filter((name) => command.getOptionValueSource(name) === 'cli')
      if (named.some((name) => !['undo', 'yes', 'dryRun'].includes(name)))
        throw usage('--undo goes with --yes or --dry-run, and with nothing else of init.')
      await undoInit(cli, place, given)
    })
}
