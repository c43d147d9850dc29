// init: sets a server up in one go: user, folders, settings, database, jobs, and the first partner with its key.

import { Command, Option } from 'commander'
import { refusePartnerName } from '../../core/partner.ts'
import { Problem } from '../../core/problem.ts'
import { isServer, shownAddress } from '../../store/address.ts'
import { type Cli, databaseOf } from '../context.ts'
import { environmentOption, priceFeedOption, slug } from '../options.ts'
import { pingOption } from '../service/ping.ts'
import { confirmForGood, confirmOnTerminal, mayAsk, note, print, warn } from '../terminal.ts'
import type { InitOptions, Outcome } from './dialogue.ts'
import type { Step, Taken } from './file-steps.ts'
import type { Place } from './places.ts'
import type { FirstPartner } from './steps.ts'

export function initCommand(cli: Cli): Command {
  return new Command('init')
    .description('set this machine up: user, folders, settings, database, jobs, first partner and key')
    .option('--yes', 'ask nothing')
    .option('--dry-run', 'say what it would do; do nothing')
    .option(
      '--no-start',
      'make no database and start nothing: for a machine whose database comes from a backup',
    )
    .option('--undo', 'take the jobs and the program off this machine; the database and its backups stay')
    .addOption(
      new Option('--scheduler <how>', 'what runs the jobs; for root by default what the machine has').choices(
        ['systemd', 'cron', 'none'],
      ),
    )
    .addOption(priceFeedOption().default(undefined))
    .addOption(pingOption())
    .option('--partner <slug>', 'the first partner', slug)
    .option('--name <text>', 'its name as shown')
    .addOption(environmentOption().default(undefined, 'test'))
    .action(async (given: InitOptions, command: Command) => {
      const { parent } = command
      const isNamed = parent?.getOptionValueSource('db') !== 'default'
      const place = await placeOf(isNamed ? cli.globals().db : null)
      if (!given.undo) return init(cli, place, given)
      // The settings, which may be loaded into the shell, name options of init as well.
      const named = Object.keys(given).filter((name) => command.getOptionValueSource(name) === 'cli')
      if (named.some((name) => !['undo', 'yes', 'dryRun'].includes(name)))
        throw new Problem('usage', '--undo goes with --yes or --dry-run, and with nothing else of init.')
      await undoInit(cli, place, given)
    })
}

/** Shows what it would do, and does it after a yes. */
async function undoInit(cli: Cli, place: Place, { yes, dryRun }: InitOptions): Promise<void> {
  const { undoLines } = await import('./dialogue.ts')
  const { leftBehind, undoSteps } = await import('./steps.ts')
  const steps = undoSteps(place)
  if (!dryRun && !yes) {
    for (const { what } of steps) note(cli, `to do    ${what}`)
    await confirmForGood(cli, { yes: false, what: 'This stops the service and its jobs', question: 'Go on?' })
  }
  if (!dryRun) for (const { perform } of steps) await perform()
  const taken = steps.map(({ what }) => ({ state: dryRun ? ('would' as const) : ('done' as const), what }))
  const left = leftBehind(place)
  print(cli, { steps: taken, left }, () => undoLines(taken, left).join('\n'))
}

/** Anything that is not named stays where this machine's jobs have it. */
async function placeOf(db: string | null): Promise<Place> {
  const { placeFor } = await import('./places.ts')
  const { readSetting } = await import('./installed-program.ts')
  const place = placeFor(db)
  const known = db === null ? readSetting(place, 'TRANCHE_DB') : undefined
  return known !== undefined && isServer(known) ? placeFor(known) : place
}

async function init(cli: Cli, place: Place, given: InitOptions): Promise<void> {
  const { schedulerFor } = await import('./scheduler.ts')
  const { askForRest, readFeed, tryFeed } = await import('./dialogue.ts')
  const { askService } = await import('./installed-program.ts')
  const { firstKey, stepsFor } = await import('./steps.ts')
  if (!given.start && given.partner !== undefined)
    throw new Problem('usage', '--no-start makes no database, so it takes no --partner.')
  const asks = mayAsk(cli) && !given.yes && !given.dryRun
  const options = asks ? await askForRest(cli, place, given) : given
  const partner = partnerOf(options)
  const scheduler = schedulerFor(place, options.scheduler)
  const trial = await tryFeed(cli, options.priceFeed ?? readFeed(place))
  // Anything that prevents a step is reported before the first step is taken.
  const steps = stepsFor(place, scheduler, { ...options, partner }).map((step) => ({
    ...step,
    isTaken: step.isDone(),
  }))
  if (asks) {
    for (const { isTaken, what } of steps) note(cli, `${isTaken ? 'as it is' : 'to do   '} ${what}`)
    await confirmOnTerminal(cli, 'Go on?')
  }
  const isDry = options.dryRun === true
  const { taken, key } = await tellingOfServer(cli, place, async () => ({
    taken: await takeAll(cli, steps, isDry),
    key: partner && !isDry ? await firstKey(place, partner) : null,
  }))
  const isStarted = options.start
  const answer = scheduler === 'systemd' && isStarted && !isDry ? askService(place) : null
  await report(cli, { place, scheduler, trial, taken, isStarted, answer, partner, key, isDry })
}

/** Does nothing for a file: the steps make whatever it needs. */
async function tellingOfServer<T>(cli: Cli, { database }: Place, work: () => Promise<T>): Promise<T> {
  if (!isServer(database)) return work()
  const { tellingOfWaits } = await import('../../store/database.ts')
  return tellingOfWaits(await databaseOf(database, cli.machine), (what) => note(cli, what), work)
}

/** Throws usage for half a partner, and for a name that `partner create` would refuse when all else is done. */
function partnerOf({ partner, name, env }: InitOptions): FirstPartner | null {
  if (partner === undefined && name === undefined) return null
  if (partner === undefined || name === undefined)
    throw new Problem('usage', '--partner and --name go together.')
  refusePartnerName(name)
  return { slug: partner, name, environment: env ?? 'test' }
}

/** Takes the steps that are not taken yet. When one fails, says which were taken before it. */
async function takeAll(
  cli: Cli,
  steps: readonly (Step & { isTaken: boolean })[],
  dryRun: boolean,
): Promise<Taken[]> {
  const taken: Taken[] = []
  for (const { what, isTaken, perform } of steps) {
    try {
      if (!isTaken && !dryRun) await perform()
    } catch (error) {
      const { stepLines } = await import('./dialogue.ts')
      for (const line of stepLines(taken)) note(cli, line)
      throw error
    }
    const state = isTaken ? 'already' : dryRun ? 'would' : 'done'
    taken.push({ state, what })
  }
  return taken
}

async function report(cli: Cli, outcome: Outcome): Promise<void> {
  const { onInstalled, reportLines, warningsOf } = await import('./dialogue.ts')
  const { place, scheduler, trial, taken, answer, partner, key } = outcome
  for (const warning of warningsOf(outcome)) warn(cli, warning)
  if (key) {
    const remedy = `run \`${onInstalled(place, `key revoke ${key.key_id}`)}\`, and create another.`
    cli.streams.shownOnce?.({ what: `the key ${key.key_id}`, remedy })
  }
  const { program, settings } = place
  const database = shownAddress(place.database)
  const json = {
    program,
    settings,
    database,
    scheduler,
    steps: taken,
    service: answer,
    feed: trial,
    partner: partner?.slug ?? null,
    key,
  }
  print(cli, json, () => reportLines(outcome).join('\n'))
}
