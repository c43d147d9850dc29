// The options of commands: readers that turn a word into a value or say what it should be, and the options that several
// commands share.

import { type Command, InvalidArgumentError, Option } from 'commander'
import { isMonth } from '../core/month.ts'
import { ENVIRONMENTS, PARTNER_SLUG_MAX, PARTNER_SLUG_PATTERN } from '../core/partner.ts'
import { Problem, usage } from '../core/problem.ts'
import { ID_MAX, REASON_MAX } from '../core/text.ts'
import { type Instant, parseInstant, parseSpan, plus, SPAN_MAX_DAYS } from '../core/time.ts'
import type { Guard } from '../webhook/address-guard.ts'
import type { SendWakeUp } from '../webhook/wake-partners.ts'

/** A reader that takes a word as it is, or says what is wanted. */
export const word =
  (isFine: (text: string) => boolean, wanted: string) =>
  (text: string): string => {
    if (isFine(text)) return text
    throw new InvalidArgumentError(wanted)
  }

export const slug = word(
  (text) => PARTNER_SLUG_PATTERN.test(text),
  `A slug is 2 to ${PARTNER_SLUG_MAX} lower-case letters, digits and hyphens, not starting with a hyphen.`,
)

export const month = word(isMonth, 'A month is written YYYY-MM, from 0001-01 to 9999-12.')

export const year = word((text) => isMonth(`${text}-01`), 'A year is written YYYY, from 0001 to 9999.')

/** A date, which means its midnight in UTC, an RFC 3339 time, or a span such as 24h, which means that long ago. */
export const time =
  (clock: () => Instant) =>
  (text: string): Instant => {
    if (/^\d+[a-z]$/.test(text)) return plus(clock(), -duration(text))
    const parsed = parseInstant(text)
    if (parsed.ok) return parsed.at
    throw new InvalidArgumentError(
      'Give a day such as 2026-01-31, a time such as 2026-01-31T08:00:00Z, or 24h.',
    )
  }

/** Dollars with at most two places; kept as text until the command reads it as money. */
export const dollars = word(
  (text) => /^\d{1,10}(\.\d{1,2})?$/.test(text),
  'An amount is a decimal with at most two places, such as 5.00.',
)

const decimalOf = (places: string): string =>
  `An amount is a decimal of at most ${places} places and not negative, such as 9.50.`

/** Dollars or coins to the last decimal place that the ledger keeps; an operator's amount is never rounded. */
export const amount = word((text) => /^\d{1,10}(\.\d{1,8})?$/.test(text), decimalOf('eight'))

/** Dollars or coins as in a partner's own list: rounded like a confirmation. */
export const partnersAmount = word((text) => /^\d{1,10}(\.\d{1,18})?$/.test(text), decimalOf('18'))

export const reasonOption = (what: string) => optionalReason(what).makeOptionMandatory()

const oneLine = word(
  (text) => text !== '' && [...text].length <= REASON_MAX && !CONTROL.test(text),
  `A reason is one line of 1 to ${REASON_MAX} characters.`,
)

export const optionalReason = (what: string) =>
  new Option('--reason <text>', what).argParser((text: string) => oneLine(text.trim()))

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
const CONTROL = /[\u0000-\u001f\u007f]/

/** An id that a partner gave to a user, a plan or an order: it is never trimmed, and may be a space. */
export const partnersId = word(
  (text) => [...text].length <= ID_MAX && !CONTROL.test(text),
  `An id is at most ${ID_MAX} characters, none of them a control character.`,
)

export const positivePrice = word(
  (text) => /^\d{1,8}(\.\d{1,8})?$/.test(text) && /[1-9]/.test(text),
  'A price is a positive decimal, such as 64250.50.',
)

export const wholeNumber =
  (min: number, max: number) =>
  (text: string): number => {
    const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN
    if (value >= min && value <= max) return value
    throw new InvalidArgumentError(`Give a whole number from ${min} to ${max}.`)
  }

/** An option that a variable can set, too: TRANCHE_LOG_LEVEL for --log-level. */
export function setting(flags: string, words: string): Option {
  const option = new Option(flags, words)
  return option.env(`TRANCHE_${option.name().replaceAll('-', '_').toUpperCase()}`)
}

export const envOption = () => new Option('--env <environment>', 'the environment').choices(ENVIRONMENTS)

export const DATABASE_DEFAULT = 'tranche.db'

export const dbOption = () =>
  setting('--db <file>', 'the database: a file, or postgres://USER@HOST/NAME').default(DATABASE_DEFAULT)

/** The warning when the value of a flag that names a database contains a password. */
export const seenByAll = (flag: string): string =>
  `everybody on this machine can read the password in ${flag}: put the address into the variable TRANCHE_DB, or the password into ~/.pgpass`

// Durations: 60s, 15m, 24h, 90d.

/** Reads a time of one second to `daysMax` days, in ms. */
const timeUpTo = (daysMax: number) => (text: string) => {
  const ms = parseSpan(text, daysMax)
  if (ms !== null) return ms
  throw new InvalidArgumentError(
    `Give a whole number and a unit, such as 60s, 15m or 24h, from 1s to ${daysMax}d.`,
  )
}

/** A duration, or a distance in time, in ms. Not for timers, which take `interval`. */
export const duration = timeUpTo(SPAN_MAX_DAYS)

/** How long a timer waits, in ms. Node's timers count them in 31 bits: with a longer wait, they do not wait at all. */
export const interval = timeUpTo(24)

export const intervalOrOff = (text: string): number | 'off' => (text === 'off' ? text : interval(text))

const FEEDS = 'none, static:PRICE, an exchange, median, or a JSON ticker (tranche docs engine)'
export const priceFeedOption = () => setting('--price-feed <spec>', FEEDS).default('none')

// No given value may be empty: a blank variable or flag is a mistake, and does not mean "none".

/** Makes an empty value of any option or argument a usage error, from the flag and from its variable. */
export function refuseEmpty(command: Command): void {
  const valued = command.options.filter(({ required, optional }) => required || optional)
  for (const word of [...valued, ...command.registeredArguments]) word.argParser(filled(word.parseArg))
}

type Parse = (text: string, previous: unknown) => unknown

const filled =
  (parse: Parse | undefined): Parse =>
  (text, previous) => {
    const isEmpty = text === '' || (text.trim() === '' && parse !== partnersId)
    if (isEmpty) throw new InvalidArgumentError('It must not be empty.')
    const value = parse === undefined ? text : parse(text, previous)
    // Otherwise the parser would pass an empty text to the command.
    if (value === null || value === undefined) throw new Error(`${JSON.stringify(text)} has no value`)
    return value
  }

/** Variables without an option. */
export const NO_OPTIONS = ['TRANCHE_CACHE', 'TRANCHE_TRUST_FAILOVER', 'TRANCHE_WEBHOOK_SECRET'] as const

/** Throws usage when one of those is set but empty; the parser complains about the others. */
export function refuseEmptyVariables(env: NodeJS.ProcessEnv): void {
  const empty = NO_OPTIONS.find((name) => env[name]?.trim() === '')
  if (empty !== undefined) throw usage(`${empty} must not be empty.`)
}

export const serviceOption = () =>
  setting('--url <url>', 'the service')
    .default('http://127.0.0.1:8080')
    .argParser((text: string) => serviceUrl(text).replace(/\/+$/, ''))

/** An http or https address, as it was typed. */
export const httpUrl = (wanted: string) =>
  word((text) => /^https?:$/.test(URL.parse(text)?.protocol ?? ''), `Give ${wanted}.`)

const serviceUrl = httpUrl('the address of the service, such as http://127.0.0.1:8080')

// Options of commands that send webhooks: the addresses that they may reach, the authorities that they trust, and the
// names of their headers.

export type WebhookOptions = { webhookAllowCidr: string[]; webhookCa?: string; webhookHeaderPrefix: string }

export function addWebhookOptions(command: Command): Command {
  return command
    .addOption(
      setting('--webhook-allow-cidr <range>', 'let webhooks reach this range (repeatable)')
        .argParser(cidrs)
        .default([], 'none'),
    )
    .addOption(caOption())
    .addOption(headerPrefixOption())
}

export const caOption = () => setting('--webhook-ca <file>', 'also trust this certificate authority (PEM)')

export const headerPrefixOption = () =>
  setting('--webhook-header-prefix <prefix>', 'how the headers of webhooks begin')
    .argParser(headerPrefix)
    .default('X-Service')

/** One value may contain several ranges, separated by commas, because an environment variable has only one value. */
function cidrs(text: string, others: string[]): string[] {
  const ranges = text.split(',').map((range) => range.trim())
  if (ranges.every((range) => /^[0-9A-Fa-f:.]+\/\d{1,3}$/.test(range))) return [...others, ...ranges]
  throw new InvalidArgumentError('Give a range such as 10.0.0.0/8.')
}

const headerPrefix = word(
  (text) => /^[A-Za-z][A-Za-z0-9-]{0,48}[A-Za-z0-9]$/.test(text),
  'Give letters, digits and hyphens, such as X-Service.',
)

export type Webhooks = { guard: Guard; send: SendWakeUp }

/** Loaded at its first use, but options that could be wrong are read at once, before the command does anything. */
export async function lazyWebhooks(options: WebhookOptions): Promise<() => Promise<Webhooks>> {
  const flagged = options.webhookAllowCidr.length > 0 || options.webhookCa !== undefined
  let loaded = flagged ? await webhooksOf(options) : null
  return async () => {
    loaded ??= await webhooksOf(options)
    return loaded
  }
}

export async function webhooksOf(options: WebhookOptions, namesAddresses = false): Promise<Webhooks> {
  const { createGuard, parseCidr } = await import('../webhook/address-guard.ts')
  const { createSend } = await import('../webhook/send.ts')
  try {
    const guard = createGuard({ allow: options.webhookAllowCidr.map(parseCidr), namesAddresses })
    const { webhookHeaderPrefix: headerPrefix, webhookCa } = options
    return { guard, send: createSend({ guard, headerPrefix, caFile: webhookCa ?? null }) }
  } catch (error) {
    if (error instanceof Problem) throw error
    throw usage(`--webhook options: ${(error as Error).message}`)
  }
}

/** The waits of the contract, in seconds; the last one is repeated. */
export const WAITS_S = [1, 2, 5, 10, 30, 60]

/** As part of a sentence: "1, 2, 5, 10, 30 and 60". */
export const waitsInWords = (): string => `${WAITS_S.slice(0, -1).join(', ')} and ${WAITS_S.at(-1)}`
