// What init does when it is run: the questions, its steps in turn, and the output.

import { existsSync } from 'node:fs'
import { formatPrice } from '../../core/money.ts'
import { type Environment, refusePartnerName } from '../../core/partner.ts'
import { usage } from '../../core/problem.ts'
import { createFeed, FEED_WORDS, feedName } from '../../price/feed.ts'
import { isServer, shownAddress } from '../../store/address.ts'
import { type Cli, databaseOf, tellingOfWaits } from '../context.ts'
import { slug } from '../options.ts'
import { pingUrl } from '../service/ping.ts'
import {
  ask,
  askLine,
  askOptional,
  confirmForGood,
  confirmOnTerminal,
  isYes,
  mayAsk,
  note,
  print,
  warn,
} from '../terminal.ts'
import type { Step, Taken } from './file-steps.ts'
import { type Answer, askService, readSetting } from './installed-program.ts'
import {
  hasCron,
  installedSchedulers,
  type Place,
  placeFor,
  type Scheduler,
  schedulerFor,
  schedulerOfMachine,
  usualScheduler,
} from './places.ts'
import {
  crontabLines,
  type FirstPartner,
  firstKey,
  type IssuedKey,
  type Left,
  leftBehind,
  stepsFor,
  undoSteps,
} from './steps.ts'

/** The options of init, as the parser hands them over; the dialogue asks for what is missing. */
export type InitOptions = {
  yes?: true
  dryRun?: true
  undo?: true
  /** False for --no-start. */
  start: boolean
  scheduler?: Scheduler
  priceFeed?: string | undefined
  ping?: URL | undefined
  partner?: string | undefined
  name?: string | undefined
  env?: Environment | undefined
}

export async function init(cli: Cli, place: Place, given: InitOptions): Promise<void> {
  if (!given.start && given.partner !== undefined)
    throw usage('--no-start makes no database, so it takes no --partner.')
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
  return tellingOfWaits(await databaseOf(database, cli.machine), (what) => note(cli, what), work)
}

/** Throws usage for half a partner, and for a name that `partner create` would refuse when all else is done. */
function partnerOf({ partner, name, env }: InitOptions): FirstPartner | null {
  if (partner === undefined && name === undefined) return null
  if (partner === undefined || name === undefined) throw usage('--partner and --name go together.')
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
      for (const line of stepLines(taken)) note(cli, line)
      throw error
    }
    const state = isTaken ? 'already' : dryRun ? 'would' : 'done'
    taken.push({ state, what })
  }
  return taken
}

export async function undoInit(cli: Cli, place: Place, { yes, dryRun }: InitOptions): Promise<void> {
  const steps = undoSteps(place)
  if (!dryRun && !yes) {
    for (const { what } of steps) note(cli, `to do    ${what}`)
    await confirmForGood(cli, {
      yes: false,
      what: 'This stops the service and its jobs',
      question: 'Undo all of this?',
    })
  }
  if (!dryRun) for (const { perform } of steps) await perform()
  const taken = steps.map(({ what }) => ({ state: dryRun ? ('would' as const) : ('done' as const), what }))
  const left = leftBehind(place)
  print(cli, { steps: taken, left }, () => undoLines(taken, left).join('\n'))
}

/** Without --db, the database stays the one that this machine's jobs use. */
export function placeOf(db: string | null): Place {
  const place = placeFor(db)
  const configured = db === null ? readSetting(place, 'TRANCHE_DB') : undefined
  return configured !== undefined && isServer(configured) ? placeFor(configured) : place
}

/** The options with the answers. Throws Interrupted when Ctrl-C is pressed. */
export async function askForRest(cli: Cli, place: Place, given: InitOptions): Promise<InitOptions> {
  const scheduler = given.scheduler ?? (await askScheduler(cli, place))
  const priceFeed = given.priceFeed ?? (await askFeed(cli))
  const ping = given.ping ?? (await askPing(cli))
  const partner = given.start ? (given.partner ?? (await askPartner(cli))) : undefined
  const name = partner === undefined ? given.name : (given.name ?? (await askName(cli, partner)))
  const env = partner === undefined ? given.env : (given.env ?? (await askEnvironment(cli, partner)))
  return { ...given, scheduler, priceFeed, ping, partner, name, env }
}

async function askScheduler(cli: Cli, place: Place): Promise<Scheduler> {
  if (place.user === null) {
    const answer = await askLine(cli, 'Put the ticks, checks and backups into your crontab? [y/N]')
    return isYes(answer) ? 'cron' : 'none'
  }
  const usual = usualScheduler()
  return ask(cli, `What runs the jobs: systemd, cron or none? [${usual}]`, (answer) => {
    if (answer === '') return usual
    if (answer === 'systemd' || answer === 'cron' || answer === 'none') return answer
    throw usage('Answer systemd, cron or none.')
  })
}

/** Undefined leaves the settings as they are: with their feed, if they have one. */
const askFeed = (cli: Cli): Promise<string | undefined> =>
  askOptional(cli, `Where do prices come from: ${FEED_WORDS}? [as set, or none]`, (answer) => {
    createFeed(answer, { clock: cli.machine.clock, warn: () => {} })
    return answer
  })

/** Without an outside monitor nobody notices that the scheduler has stopped. Undefined leaves the setting. */
const askPing = (cli: Cli): Promise<URL | undefined> =>
  askOptional(
    cli,
    'Which heartbeat monitor is to be called after each tick, as an address? [as set, or none]',
    pingUrl,
  )

const askPartner = (cli: Cli): Promise<string | undefined> =>
  askOptional(cli, 'The first partner, as a short name such as acme? [none]', slug)

const askName = (cli: Cli, partner: string): Promise<string> =>
  ask(cli, `The name of ${partner} as shown?`, (answer) => {
    if (answer === '') throw usage('A partner has a name.')
    refusePartnerName(answer)
    return answer
  })

const askEnvironment = (cli: Cli, partner: string): Promise<Environment> =>
  ask(cli, `Is the key of ${partner} for test or live? [test]`, (answer) => {
    if (answer === '') return 'test'
    if (answer === 'test' || answer === 'live') return answer
    throw usage('Answer test or live.')
  })

// A trial of the chosen feed: asked once, before anything relies on it.

type Trial = { feed: string; price_usd: string | null; complaints: string[] }

/** The feed that the settings name, or none. Throws bad_file as `readOwn` does. */
export const readFeed = (place: Place): string => readSetting(place, 'TRANCHE_PRICE_FEED') ?? 'none'

/** Asks the feed once. Throws usage for a feed that does not exist. */
export async function tryFeed(cli: Cli, spec: string): Promise<Trial> {
  const complaints: string[] = []
  const feed = createFeed(spec, { clock: cli.machine.clock, warn: (message) => complaints.push(message) })
  const { price } = await feed()
  return { feed: feedName(spec), price_usd: price && formatPrice(price.price), complaints }
}

const CLOCK = `The clock decides. There is no price to wait for, so the tranches are spread evenly over each window, and
each fires in the middle of its share. The first one comes two hours after a daily plan of 30.00 USD or
more begins, three hours after a weekly plan of 140.00 or a bi-weekly plan of 280.00. A smaller plan has
fewer tranches, and its first one comes later.`

export function feedWords({ feed, price_usd, complaints }: Trial): string {
  if (feed === 'none') return `There is no price feed.\n${CLOCK}`
  if (price_usd === null)
    return `The feed ${feed} gave no price (${complaints.join('; ')}).\nEvery tick asks it again. Until it answers:\n${CLOCK}`
  return `The feed ${feed} says ${price_usd} USD. The first tranche of a plan fires at the next tick.`
}

export type Outcome = {
  place: Place
  scheduler: Scheduler
  trial: Trial
  taken: readonly Taken[]
  isStarted: boolean
  /** Null where nothing was started that could answer. */
  answer: Answer | null
  partner: FirstPartner | null
  key: IssuedKey | null
  isDry: boolean
}

async function report(cli: Cli, outcome: Outcome): Promise<void> {
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

/** A step on each line. How to undo them is not said here: pasted a year later, it would end the service. */
export const stepLines = (taken: readonly Taken[]): string[] =>
  taken.map(({ state, what }) => `${state.padEnd(8)} ${what}`)

const indented = (line: string): string => `  ${line}`

/** Everything, as a person reads it; the key alone on the last line. */
export function reportLines(outcome: Outcome): string[] {
  const { place, trial, taken, partner, key, isDry } = outcome
  return [
    ...stepLines(taken),
    '',
    feedWords(trial),
    ...jobLines(outcome),
    '',
    'Every other command finds the settings by itself:',
    indented(`${place.user === null ? '' : 'sudo '}${place.program} status`),
    'In a script, first load them into the shell:',
    indented(`set -a; . ${place.settings}; set +a`),
    indented(`${asUser(place)}${place.program} status`),
    `To see how to remove all of this from the machine: ${place.program} init --undo --dry-run`,
    ...(partner ? ['', isDry ? dryWords(partner) : partnerWords(partner, key)] : []),
    ...(key ? [key.key] : []),
  ]
}

const asUser = ({ user }: Place): string => (user === null ? '' : `runuser -u ${user} -- `)

/** A command line that runs the installed program with its settings, whatever the shell has loaded. */
export const onInstalled = (place: Place, words: string): string =>
  `${asUser(place)}sh -c 'set -a; . ${place.settings}; exec ${place.program} ${words}'`

/** What the operator still has to do: a supervisor for serve, and the ticks unless something already runs them. */
function jobLines({ place, scheduler, isStarted, answer }: Outcome): string[] {
  if (!isStarted)
    return [
      '',
      'Nothing was started. Put the database in its place, and go through `tranche docs disaster`; then start it all:',
      indented(`${place.program} init --yes`),
    ]
  const serve = (more: string): string => onInstalled(place, `serve --no-create${more}`)
  if (scheduler === 'systemd') {
    const jobs = "systemd runs the ticks, checks and backups: journalctl -u 'tranche*'"
    return ['', answer?.ok ? `The service answers at ${answer.url}, and ${jobs}` : `From then on ${jobs}`]
  }
  if (scheduler === 'cron')
    return [
      '',
      'Cron runs the ticks, checks and backups. Let a supervisor run the service:',
      indented(serve('')),
    ]
  const alone = [
    '',
    'Let a supervisor run the service, with the ticks inside it:',
    indented(serve(' --tick-every 60s')),
  ]
  if (place.user !== null) return alone
  const lines = crontabLines(place).split('\n').map(indented)
  return [
    ...alone,
    '',
    'Or put these lines into your crontab, as --scheduler cron does, and leave out --tick-every:',
    ...lines,
  ]
}

/** A dry run does not look for a key: the program that would do so is not installed yet. */
const dryWords = ({ slug, environment }: FirstPartner): string =>
  `It would make a ${environment} key of ${slug} unless one works.`

const partnerWords = ({ slug, environment }: FirstPartner, key: IssuedKey | null): string =>
  key === null
    ? `The partner ${slug} has a ${environment} key that works; tranche key create makes another.`
    : `The ${environment} key of ${slug} (${key.key_id}), which is not shown again:`

/** Warnings of what would keep the jobs from running, run them twice, or keep their failures from being noticed. */
export function warningsOf({ place, scheduler, answer }: Outcome): string[] {
  const twice =
    place.user !== null && schedulerOfMachine() === 'systemd' && installedSchedulers().length > 1
      ? [
          'both systemd and cron run the jobs, so the backups of a night count twice against --keep: `tranche init --undo` takes both away; then run init again with one',
        ]
      : []
  if (answer?.ok === false)
    return [
      ...twice,
      `the service does not answer at ${answer.url} (${answer.answer}): journalctl -u tranche`,
    ]
  if (scheduler !== 'cron') return twice
  const hasLog = existsSync('/dev/log')
  return [
    ...twice,
    ...(hasCron() ? [] : ['cron is not installed, so nothing runs: apt-get install cron']),
    ...(hasLog
      ? []
      : ['no system log listens on /dev/log, so nobody hears of a job that fails: apt-get install rsyslog']),
  ]
}

export function undoLines(taken: readonly Taken[], left: readonly Left[]): string[] {
  const done = taken.length > 0 ? stepLines(taken) : ['Nothing of init is on this machine.']
  if (left.length === 0) return done
  return [
    ...done,
    ...left.map(({ what }) => `left     ${what}`),
    '',
    'What is left can be removed for good, once nobody needs it any more:',
    ...left.map(({ remedy }) => indented(remedy)),
    'What `tranche docs` has written, such as the samples, is wherever it was told to write it.',
  ]
}
