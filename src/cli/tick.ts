import { Command, Option } from 'commander'
import { formatInstant, plus } from '../core/instant.ts'
import { formatPrice, formatUsd, price } from '../core/money.ts'
import type { FailedPlan, PassReport, Rehearsal } from '../engine/pass.ts'
import type { Feed } from '../price/feed.ts'
import type { Preview, Store } from '../store/store.ts'
import { type Woken, wakePartners } from '../webhook/wake-partners.ts'
import { type Cli, type Column, print, renderTable, warn } from './context.ts'
import { EXIT } from './exit-codes.ts'
import { positivePrice } from './options/values.ts'
import { addWebhookOptions, lazyWebhooks, type WebhookOptions, type Webhooks } from './options/webhooks.ts'

type TickCommandOptions = WebhookOptions & { price?: string; priceFeed: string; dryRun?: boolean }

export function tickCommand(cli: Cli): Command {
  return addWebhookOptions(new Command('tick'))
    .description('run one scheduler pass; for cron, silent unless on a terminal')
    .addOption(
      new Option('--price <usd>', 'the price of this pass').argParser(positivePrice).conflicts('priceFeed'),
    )
    .addOption(priceFeedOption())
    .option('--dry-run', 'say what would fire and why; store nothing')
    .action((options: TickCommandOptions) =>
      cli.withStore(async (store) => {
        const { rehearsePass, runPass } = await import('../engine/pass.ts')
        const { machine } = cli
        const observe = await feedOf(cli, options)
        const webhooks = await lazyWebhooks(options)
        const started = performance.now()
        if (options.dryRun) {
          await showRehearsal(cli, await rehearsePass({ store, machine, observe }))
          return
        }
        const report = await runPass({ store, machine, observe })
        const woken = report && (await wake(cli, store, webhooks, report))
        const json = passJson({
          report,
          woken,
          now: machine.clock(),
          durationMs: performance.now() - started,
        })
        for (const failure of await namesOf(store, report?.failed ?? [])) warn(cli, failure)
        if (json.plans_failed) cli.exitWith(EXIT.found)
        if (cli.globals().json) cli.streams.out.write(`${JSON.stringify(json)}\n`)
        else if (cli.streams.out.isTTY) cli.streams.out.write(`${inWords(json)}\n`)
      }),
    )
}

/** How many failed plans are named; what ails a hundred is better looked for in one. */
const FAILURES_NAMED_MAX = 10

/** What to tell of plans that could not be decided. */
export async function namesOf(store: Store, failed: readonly FailedPlan[]): Promise<string[]> {
  const named = failed.slice(0, FAILURES_NAMED_MAX).map(async ({ planId, error }) => {
    const [plan] = await store.listPlans({ slug: null, environment: null }, { after: planId - 1, limit: 1 })
    const where = plan
      ? `${plan.tenant.partnerSlug} ${plan.tenant.environment} plan ${plan.partnerPlanId}`
      : `plan ${planId}`
    return `${where} could not be decided and fires nothing: ${(error as Error).message}`
  })
  return Promise.all(named)
}

/** Sends what a pass announced; what cannot be sent is a warning. */
export const wake = (
  cli: Cli,
  store: Store,
  webhooks: () => Promise<Webhooks>,
  pass: { passId: number; executionsCreated: number },
): Promise<Woken> =>
  wakePartners(pass, {
    store,
    deliver: async () => (await webhooks()).deliver,
    warn: (message) => warn(cli, message),
  })

export const priceFeedOption = () =>
  new Option(
    '--price-feed <spec>',
    'none, static:PRICE, an exchange, median, or a JSON ticker (docs/engine.md)',
  )
    .env('TRANCHE_PRICE_FEED')
    .default('none')

/** The price of one pass: as given, else from the feed. */
async function feedOf(cli: Cli, options: TickCommandOptions): Promise<Feed> {
  const { createFeed, fixedPrice } = await import('../price/feed.ts')
  if (options.price !== undefined) return fixedPrice(price(options.price), 'manual')
  return createFeed(options.priceFeed, { clock: cli.machine.clock, warn: (message) => warn(cli, message) })
}

/** What a pass did; one that found another running did nothing and says so. */
export const passJson = ({ report, woken, now, durationMs }: PassOutcome) => ({
  at: formatInstant(report?.at ?? now),
  price_usd: report?.price ? formatPrice(report.price) : null,
  plans_evaluated: report?.plansEvaluated ?? 0,
  executions_created: report?.executionsCreated ?? 0,
  windows_rolled: report?.windowsRolled ?? 0,
  webhooks_sent: woken?.sent ?? 0,
  webhooks_failed: woken?.failed ?? 0,
  duration_ms: Math.round(durationMs),
  ...(report === null && { skipped: true }),
  ...(report && report.failed.length > 0 && { plans_failed: report.failed.length }),
})

type PassOutcome = {
  /** Null when another pass was running. */
  report: PassReport | null
  woken: Woken | null
  now: PassReport['at']
  durationMs: number
}

function inWords(json: ReturnType<typeof passJson>): string {
  if (json.skipped) return 'Another tick is running; this one did nothing.'
  const at = json.price_usd === null ? 'without a price' : `at ${json.price_usd} USD`
  return (
    `${json.executions_created} fired of ${json.plans_evaluated} plans looked at, ${at}, ` +
    `${json.windows_rolled} windows rolled, in ${json.duration_ms} ms.`
  )
}

async function showRehearsal(cli: Cli, rehearsal: Rehearsal): Promise<void> {
  const json = {
    at: formatInstant(rehearsal.at),
    price_usd: rehearsal.price && formatPrice(rehearsal.price),
    plans_evaluated: rehearsal.plansEvaluated,
    executions_created: 0,
    dry_run: true,
    would_fire: rehearsal.fired.map((fired) => firedJson(fired, rehearsal.leadMs)),
  }
  const table = await renderTable(COLUMNS, json.would_fire)
  const head = `${json.would_fire.length} would fire of ${json.plans_evaluated} plans looked at, price ${json.price_usd ?? 'not live'}.`
  print(cli, json, () => (json.would_fire.length === 0 ? head : `${head}\n\n${table}`))
}

/** A tranche and everything that led to it. */
const firedJson = ({ tenant, partnerPlanId, tranche, schedule }: Preview, leadMs: number) => ({
  partner_slug: tenant.partnerSlug,
  environment: tenant.environment,
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
  failsafe_at: formatInstant(plus(schedule.windowEnd, -leadMs)),
  window_end: formatInstant(schedule.windowEnd),
})

const COLUMNS: Column<ReturnType<typeof firedJson>>[] = [
  { title: 'PLAN', of: (row) => row.partner_plan_id },
  { title: 'PARTNER', of: (row) => `${row.partner_slug} ${row.environment}` },
  { title: 'USD', of: (row) => row.amount_usd, right: true },
  { title: 'WHY', of: (row) => row.trigger },
  { title: 'SLOT', of: (row) => row.slot, right: true },
  { title: 'UNITS', of: (row) => `${row.units_fired}/${row.units_total}`, right: true },
  { title: 'REFERENCE', of: (row) => row.reference_usd, right: true },
  { title: 'RESERVATION', of: (row) => row.reservation_price_usd, right: true },
  { title: 'DEADLINE', of: (row) => row.deadline },
]
