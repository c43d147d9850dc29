// partner-sim: plays a partner over HTTP, so that an integration can be watched before the real one is written.

import { Command, InvalidArgumentError, Option } from 'commander'
import { formatPrice, type Price, price } from '../../core/money.ts'
import { Problem } from '../../core/problem.ts'
import { counted, visible } from '../../core/text.ts'
import type { Cli } from '../context.ts'
import { EXIT } from '../exit-codes.ts'
import { readKeyFile } from '../input-file.ts'
import { interval, positivePrice, seedOption, serviceOption, slug } from '../options.ts'
import { note, stopGently, warn } from '../terminal.ts'
import type { Outcome, Partner, Tally } from './simulated-partner.ts'

export function partnerSimCommand(cli: Cli): Command {
  return new Command('partner-sim')
    .description('play a partner over HTTP: poll, buy at the given rates, confirm')
    .argument('<slug>', 'the partner to play', slug)
    .requiredOption('--key-file <file>', 'a file with its API key')
    .addOption(serviceOption())
    .addOption(new Option('--fill <share>', 'how many are filled, by default all others').argParser(share))
    .addOption(new Option('--part <share>', 'how many are filled in part').argParser(share).default(0.1))
    .addOption(
      new Option('--fail <share>', 'how many fail; what is left stays silent').argParser(share).default(0.1),
    )
    .addOption(
      new Option('--price <usd>', 'the price its venue asks, by default the newest one stored').argParser(
        positivePrice,
      ),
    )
    .addOption(seedOption('another number plays another partner'))
    .addOption(new Option('--once', 'until nothing is due').default(false).conflicts('every'))
    .addOption(
      new Option('--every <time>', 'how often it polls, until interrupted')
        .argParser(interval)
        .default(2_000, '2s'),
    )
    .option('--live', 'take a live key: the confirmations are real', false)
    .action((partnerSlug: string, options: SimOptions) => simulate(cli, partnerSlug, options))
}

async function simulate(cli: Cli, partnerSlug: string, options: SimOptions): Promise<void> {
  const manners = mannersOf(options)
  const key = readKey(options)
  const ask = await askingPrice(cli, options)
  const { createChance, createPartner } = await import('./simulated-partner.ts')
  const partner = createPartner({
    url: options.url,
    key,
    quote: () => ask,
    chance: createChance(options.seed, 'partner-sim'),
    manners,
    onOutcome: (outcome) => tell(cli, outcome),
  })
  await refuseStranger(partner, partnerSlug, options.live)
  // Work under way is finished first.
  const stop = stopGently(() => process.exit(EXIT.interrupted))
  try {
    if (options.once) await workOff(partner, stop.signal)
    else await workOn(cli, partner, { everyMs: options.every, signal: stop.signal })
  } finally {
    stop.release()
  }
  note(cli, inWords(partner.tally))
  if (stop.signal.aborted) cli.exitWith(EXIT.interrupted)
}

/** Until nothing is due: what it stays silent about comes again only when its lease is over. */
async function workOff(partner: Partner, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const due = await partner.poll()
    if (due.length === 0) return
    await partner.work(due)
  }
}

/** A service that cannot be reached for a while is tried again, as a partner would. */
async function workOn(
  cli: Cli,
  partner: Partner,
  { everyMs, signal }: { everyMs: number; signal: AbortSignal },
): Promise<void> {
  const { setTimeout: pause } = await import('node:timers/promises')
  note(cli, 'Polling; Ctrl-C ends it.')
  while (!signal.aborted) {
    try {
      await workOff(partner, signal)
    } catch (error) {
      warn(cli, `${reasonOf(error)}; trying again`)
    }
    await pause(everyMs, undefined, { signal }).catch(() => {})
  }
}

/** `fetch` says only that it failed; the cause says why. */
const reasonOf = (error: unknown): string => {
  const { message, cause } = error as Error
  return cause instanceof Error && cause.message !== '' ? `${message}: ${cause.message}` : message
}

/** With another partner's key, it would confirm in that partner's name. */
async function refuseStranger(partner: Partner, partnerSlug: string, live: boolean): Promise<void> {
  const me = (await partner.call('GET', '/me').catch((error) => {
    throw new Error(`The service did not say whose key this is: ${reasonOf(error)}`)
  })) as { partner_slug: string; environment: string }
  if (me.partner_slug !== partnerSlug) {
    throw new Problem('usage', `The key belongs to ${me.partner_slug}, not to ${partnerSlug}.`)
  }
  if (me.environment !== 'test' && !live) throw liveRefused()
}

async function askingPrice(cli: Cli, options: SimOptions): Promise<Price> {
  if (options.price !== undefined) return price(options.price)
  const newest = await cli
    .withStore((store) => store.peekPass())
    .then(({ price: stored }) => stored?.price ?? null)
    .catch((error) => {
      // A partner is usually not where the database is.
      if (error instanceof Problem && error.code === 'database_not_found') return null
      throw error
    })
  if (newest === null)
    throw new Problem('no_price', 'No price is stored: give the price the venue asks with --price.')
  return newest
}

function tell(cli: Cli, outcome: Outcome): void {
  const { out } = cli.streams
  if (cli.globals().json) out.write(`${JSON.stringify(outcome)}\n`)
  else out.write(`${visible(line(outcome))}\n`)
}

function line(outcome: Outcome): string {
  const { execution_id: id, partner_plan_id: plan, status, amount_usd: asked } = outcome
  const head = `${plan} ${id} ${status}`
  if (status === 'filled' || status === 'partial') {
    const at = formatPrice(price(outcome.execution_price))
    return `${head} ${outcome.usd_amount} of ${asked} USD, ${outcome.btc_amount} BTC at ${at}`
  }
  return `${head} ${asked} USD`
}

const inWords = (tally: Readonly<Tally>): string =>
  `${counted(tally.delivered, 'instruction')}, ${tally.redelivered} delivered again: ${tally.filled} filled, ` +
  `${tally.partial} in part, ${tally.failed} failed, ${tally.silent} left unanswered.`

// The options as given, made into what the partner is played by.

const LIVE_PREFIX = 'sse_live_'

type SimOptions = {
  keyFile: string
  url: string
  fill?: number
  part: number
  fail: number
  price?: string
  seed: number
  once: boolean
  every: number
  live: boolean
}

function readKey({ keyFile, live }: SimOptions): string {
  const key = readKeyFile(keyFile)
  if (key.startsWith(LIVE_PREFIX) && !live) throw liveRefused()
  return key
}

const liveRefused = (): Problem =>
  new Problem('usage', 'This is a live key, and what it confirms is billed: add --live if you mean it.')

function mannersOf({ fill, part, fail }: SimOptions) {
  const silent = fill === undefined ? 0 : 1 - fill - part - fail
  // Tenths do not add up exactly in binary.
  if (part + fail > 1 || silent < -1e-9) {
    throw new Problem('usage', 'The shares of --fill, --part and --fail add up to more than 1.')
  }
  return { partial: part, failed: fail, silent: Math.max(0, silent), answerLost: 0 }
}

function share(text: string): number {
  const value = /^([01]|[01]?\.\d{1,6})$/.test(text) ? Number(text) : Number.NaN
  if (value >= 0 && value <= 1) return value
  throw new InvalidArgumentError('A share is a decimal from 0 to 1, such as 0.1.')
}
