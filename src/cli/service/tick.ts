// tick: one pass of the scheduler, for cron.

import { Command } from 'commander'
import { type Frozen, FrozenProblem, frozenJson, frozenProblem } from '../../core/frozen.ts'
import { formatPrice, formatUsd, type Price, price } from '../../core/money.ts'
import { tenantJson } from '../../core/partner.ts'
import { BY_HAND, isFarOff, MARKET_PRICE_MS } from '../../core/price.ts'
import { usage } from '../../core/problem.ts'
import { counted } from '../../core/text.ts'
import { formatInstant } from '../../core/time.ts'
import { failsafeStart } from '../../core/window.ts'
import type { FailedPlan, PassOptions, PassResult, Rehearsal } from '../../engine/pass.ts'
import type { Feed } from '../../price/feed.ts'
import type { Preview, Store } from '../../store/store.ts'
import { type Woken, wakePartners } from '../../webhook/wake-partners.ts'
import type { Cli } from '../context.ts'
import { EXIT, failureOf } from '../exit-codes.ts'
import {
  addWebhookOptions,
  lazyWebhooks,
  positivePrice,
  priceFeedOption,
  type WebhookOptions,
  type Webhooks,
} from '../options.ts'
import { type Column, print, tableBelow, warn } from '../terminal.ts'
import { createPing, pingOption } from './ping.ts'

type TickCommandOptions = WebhookOptions & {
  price?: string
  priceFeed: string
  ping?: URL
  dryRun?: boolean
}

export function tickCommand(cli: Cli): Command {
  return addWebhookOptions(new Command('tick'))
    .description('run the scheduler once; for cron, silent unless on a terminal')
    .option('--price <usd>', 'the price of this tick', positivePrice)
    .addOption(priceFeedOption())
    .option('--dry-run', 'say what would fire and why; store nothing')
    .addOption(pingOption())
    .action(async (options: TickCommandOptions, command: Command) => {
      // The settings of all jobs may name a feed; a price on the command line overrides it.
      if (options.price !== undefined && command.getOptionValueSource('priceFeed') === 'cli')
        throw usage("option '--price <usd>' cannot be used with option '--price-feed <spec>'")
      if (options.dryRun) return cli.withStore((store) => rehearse(cli, store, options))
      const ping = createPing(options.ping, (message) => warn(cli, message))
      // The monitor is called once the database is closed and the result is printed, so it holds up nothing.
      const ended = await cli
        .withStore((store) => tick(cli, store, options))
        .catch(async (error) => {
          await ping(failureOf(error).message)
          throw error
        })
      // A tick that another one kept from running says nothing: if that one hangs, the silence is the alarm.
      if (ended) await ping(ended.failure)
    })
}

async function rehearse(cli: Cli, store: Store, options: TickCommandOptions): Promise<void> {
  const { rehearsePass } = await import('../../engine/pass.ts')
  await lazyWebhooks(options)
  const observe = await feedOf(cli, store, options)
  await showRehearsal(cli, await rehearsePass({ store, machine: cli.machine, observe }))
}

type Ended = { failure: string | null }

/**
 * Runs the pass and prints what it did. Resolves with what failed, or what the heartbeat monitor should hear of, if
 * anything; with null when another pass runs.
 */
async function tick(cli: Cli, store: Store, options: TickCommandOptions): Promise<Ended | null> {
  const { machine } = cli
  const observe = await feedOf(cli, store, options)
  const webhooks = await lazyWebhooks(options)
  const started = performance.now()
  const { result, frozen } = await passUnlessFrozen({ store, machine, observe })
  const woken = result && (await wake(cli, { store, webhooks }, result))
  const now = machine.clock()
  const json = passJson({ result, frozen, woken, now, durationMs: performance.now() - started })
  const failures = await nameFailures(store, result?.failed ?? [])
  for (const failure of failures) warn(cli, failure)
  if (json.plans_failed) cli.exitWith(EXIT.found)
  if (cli.globals().json) cli.streams.out.write(`${JSON.stringify(json)}\n`)
  else if (cli.streams.out.isTTY)
    cli.streams.out.write(`${frozen ? frozenProblem(frozen).message : passInWords(json)}\n`)
  if (frozen) return { failure: frozenProblem(frozen).message }
  return result && { failure: failures.length > 0 ? failures.join('\n') : null }
}

/** `result` is null when another pass was running, or the database is frozen. */
export type Passed = { result: PassResult | null; frozen: Frozen | null }

/** A frozen database fails no job: cron would mail that every minute. A moved one does: throws database_moved. */
export async function passUnlessFrozen(options: PassOptions): Promise<Passed> {
  const { runPass } = await import('../../engine/pass.ts')
  try {
    return { result: await runPass(options), frozen: null }
  } catch (error) {
    if (!(error instanceof FrozenProblem)) throw error
    return { result: null, frozen: error.frozen }
  }
}

/** The price of one pass: `--price`, else from the feed. It warns of an odd one when the pass asks for it. */
async function feedOf(cli: Cli, store: Store, options: TickCommandOptions): Promise<Feed> {
  const { createFeed, fixedPrice } = await import('../../price/feed.ts')
  if (options.price !== undefined) {
    const given = price(options.price)
    const fixed = fixedPrice(given, BY_HAND)
    return async () => {
      await warnOfPrice(cli, store, given)
      return fixed()
    }
  }
  return createFeed(options.priceFeed, { clock: cli.machine.clock, warn: (message) => warn(cli, message) })
}

/** A price that was typed has no feed that vouches for it, and fires whatever waits for one. */
async function warnOfPrice(cli: Cli, store: Store, given: Price): Promise<void> {
  const { price: newest, at } = await store.peekPass()
  const market = newest !== null && at - newest.at <= MARKET_PRICE_MS ? newest.price : null
  if (!isFarOff(given, market)) return
  const odd =
    market === null ? 'a price that no market has had' : `far from the newest price, ${formatPrice(market)}`
  const what = `--price ${formatPrice(given)} is ${odd}`
  warn(cli, `${what}: waiting tranches may fire at it. Is it right?`)
}

function passInWords(json: ReturnType<typeof passJson>): string {
  if (json.skipped) return 'Another tick is running; this one did nothing.'
  const at = json.price_usd === null ? 'without a price' : `at ${json.price_usd} USD`
  return (
    `${json.executions_created} fired of ${counted(json.plans_evaluated, 'plan')} looked at, ${at}, ` +
    `${counted(json.windows_rolled, 'window')} rolled, in ${json.duration_ms} ms.`
  )
}

/** How many failed plans are named: what is wrong with a hundred is best found by looking at one. */
const FAILURES_NAMED_MAX = 10

export async function nameFailures(store: Store, failed: readonly FailedPlan[]): Promise<string[]> {
  const named = failed.slice(0, FAILURES_NAMED_MAX).map(async ({ planId, error }) => {
    const [plan] = await store.listPlans({ slug: null, environment: null }, { after: planId - 1, limit: 1 })
    const where = plan
      ? `${plan.tenant.partnerSlug} ${plan.tenant.environment} plan ${plan.partnerPlanId}`
      : `plan ${planId}`
    return `${where} could not be decided and fires nothing: ${(error as Error).message}`
  })
  return Promise.all(named)
}

/** The counts of a pass. One that was skipped, or found the database frozen, says so. */
export const passJson = ({ result, frozen, woken, now, durationMs }: PassOutcome) => ({
  at: formatInstant(result?.at ?? now),
  price_usd: result?.price ? formatPrice(result.price) : null,
  plans_evaluated: result?.plansEvaluated ?? 0,
  executions_created: result?.executionsCreated ?? 0,
  windows_rolled: result?.windowsRolled ?? 0,
  webhooks_sent: woken?.sent ?? 0,
  webhooks_failed: woken?.failed ?? 0,
  duration_ms: Math.round(durationMs),
  ...(result === null && { skipped: true }),
  ...(frozen && { frozen: frozenJson(frozen) }),
  ...(result && result.failed.length > 0 && { plans_failed: result.failed.length }),
})

type PassOutcome = Passed & {
  woken: Woken | null
  now: PassResult['at']
  durationMs: number
}

/** Wakes the partners from a command. Never throws: the executions are stored, and a poll finds them. */
export const wake = (
  cli: Cli,
  { store, webhooks }: { store: Store; webhooks: () => Promise<Webhooks> },
  pass: { passId: number; executionsCreated: number },
): Promise<Woken> =>
  wakePartners(pass, {
    store,
    send: async () => (await webhooks()).send,
    warn: (message) => warn(cli, message),
  })

async function showRehearsal(cli: Cli, rehearsal: Rehearsal): Promise<void> {
  const json = {
    at: formatInstant(rehearsal.at),
    price_usd: rehearsal.price && formatPrice(rehearsal.price),
    plans_evaluated: rehearsal.plansEvaluated,
    executions_created: 0,
    dry_run: true,
    would_fire: rehearsal.fired.map((fired) => firedJson(fired, rehearsal.leadMs)),
  }
  const table = await tableBelow(PREVIEW_COLUMNS, json.would_fire)
  const head = `${json.would_fire.length} would fire of ${counted(json.plans_evaluated, 'plan')} looked at, price ${json.price_usd ?? 'not live'}.`
  print(cli, json, () => head + table)
}

const firedJson = ({ tenant, partnerPlanId, tranche, schedule }: Preview, leadMs: number) => ({
  ...tenantJson(tenant),
  partner_plan_id: partnerPlanId,
  amount_usd: formatUsd(tranche.amount),
  trigger: tranche.trigger,
  tranche_index: schedule.trancheIndex - 1,
  slot: tranche.slot,
  units: tranche.units,
  units_fired: schedule.layout?.unitsFired ?? 0,
  units_total: (schedule.layout?.slots ?? 0) * (schedule.layout?.unitsPerSlot ?? 0),
  reference_usd: tranche.reference && formatPrice(tranche.reference),
  reservation_price_usd: tranche.reservationPrice && formatPrice(tranche.reservationPrice),
  deadline: formatInstant(schedule.nextRunAt),
  failsafe_at: formatInstant(failsafeStart(schedule, leadMs)),
  window_end: formatInstant(schedule.windowEnd),
})

const PREVIEW_COLUMNS: Column<ReturnType<typeof firedJson>>[] = [
  { title: 'PLAN', of: (row) => row.partner_plan_id },
  { title: 'PARTNER', of: (row) => `${row.partner_slug} ${row.environment}` },
  { title: 'USD', of: (row) => row.amount_usd, right: true },
  { title: 'TRIGGER', of: (row) => row.trigger },
  { title: 'SLOT', of: (row) => row.slot, right: true },
  { title: 'UNITS', of: (row) => `${row.units_fired}/${row.units_total}`, right: true },
  { title: 'REFERENCE', of: (row) => row.reference_usd, right: true },
  { title: 'RESERVATION', of: (row) => row.reservation_price_usd, right: true },
  { title: 'DEADLINE', of: (row) => row.deadline },
]
