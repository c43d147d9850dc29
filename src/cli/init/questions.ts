// What init asks on a terminal: only what no flag has said, and again until the answer is usable.

import { refusePartnerName } from '../../core/partner.ts'
import { Problem } from '../../core/problem.ts'
import { createFeed, FEED_WORDS } from '../../price/feed.ts'
import type { Cli } from '../context.ts'
import { slug } from '../options/values.ts'
import { askLine, isYes } from '../terminal/ask.ts'
import { note } from '../terminal/print.ts'
import type { Place } from './install-places.ts'
import { type Scheduler, schedulerOfMachine } from './machine-scheduler.ts'
import type { InitOptions } from './options.ts'

/** The options with the answers. Throws Interrupted when Ctrl-C is pressed. */
export async function askForRest(cli: Cli, place: Place, given: InitOptions): Promise<InitOptions> {
  const scheduler = given.scheduler ?? (await askScheduler(cli, place))
  const priceFeed = given.priceFeed ?? (await askFeed(cli))
  const partner = given.partner ?? (await askPartner(cli))
  const name = partner === undefined ? given.name : (given.name ?? (await askName(cli, partner)))
  return {
    ...given,
    scheduler,
    ...(priceFeed !== undefined && { priceFeed }),
    ...(partner !== undefined && { partner }),
    ...(name !== undefined && { name }),
  }
}

async function askScheduler(cli: Cli, place: Place): Promise<Scheduler> {
  if (place.user === null) {
    const answer = await askLine(cli, 'Put the ticks, checks and backups into your crontab? [y/N]')
    return isYes(answer) ? 'cron' : 'none'
  }
  const usual = schedulerOfMachine()
  return ask(cli, `What runs the jobs: systemd, cron or none? [${usual}]`, (answer) => {
    if (answer === '') return usual
    if (answer === 'systemd' || answer === 'cron' || answer === 'none') return answer
    throw new Problem('usage', 'Answer systemd, cron or none.')
  })
}

/** Undefined leaves the settings as they are: with their feed, if they have one. */
const askFeed = (cli: Cli): Promise<string | undefined> =>
  ask(cli, `Where do prices come from: ${FEED_WORDS}? [as set, or none]`, (answer) => {
    if (answer === '') return undefined
    createFeed(answer, { clock: cli.machine.clock, warn: () => {} })
    return answer
  })

const askPartner = (cli: Cli): Promise<string | undefined> =>
  ask(cli, 'The first partner, as a short name such as acme? [none]', (answer) =>
    answer === '' ? undefined : slug(answer),
  )

const askName = (cli: Cli, partner: string): Promise<string> =>
  ask(cli, `The name of ${partner} as shown?`, (answer) => {
    if (answer === '') throw new Problem('usage', 'A partner has a name.')
    refusePartnerName(answer)
    return answer
  })

/** How many useless answers are accepted: at the end of the input, every answer is empty. */
const TRIES = 5

async function ask<T>(cli: Cli, question: string, read: (answer: string) => T): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    const answer = await askLine(cli, question)
    try {
      return read(answer)
    } catch (error) {
      if (tries === TRIES) throw new Problem('usage', `${(error as Error).message} Nothing was changed.`)
      note(cli, (error as Error).message)
    }
  }
}
