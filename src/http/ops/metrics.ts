// Metrics for Prometheus. This process counts its own work; the work of other processes, such as ticks run by cron, is
// read from the database at each request for the metrics.

import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import { GAPS_ALLOWED, GRACE_MS, schedulerLateness } from '../../core/clock.ts'
import {
  FINDINGS,
  type Finding,
  findingsOf,
  OF_THE_CHECK,
  type PartnerVitals,
  type Vitals,
} from '../../core/findings.ts'
import { ENVIRONMENTS } from '../../core/partner.ts'
import { type Instant, MINUTE_MS, SECOND_MS } from '../../core/time.ts'
import { FAILURES_TO_PAUSE } from '../../core/webhook.ts'
import type { MonitoringStore, PassSpan } from '../../store/monitoring.ts'
import type { ClockStore, Store } from '../../store/store.ts'
import { createStockTaker, STOCK_TAKEN_MS } from './readiness.ts'

type RequestOutcome = { method: string; route: string | null; status: number; duration_ms: number }

/** The reads behind the metrics, and the store's time, which may differ from the host's clock. */
type Read = MonitoringStore & Pick<ClockStore, 'readClock'>

export type Metrics = {
  noteRequest: (outcome: RequestOutcome) => void
  noteDelivery: (delivered: boolean) => void
  /** Called with the expiry of the certificate that clients are shown from now on. */
  noteCertificate: (until: Instant) => void
  /** The store that the service uses, counting the accepted confirmations. */
  counting: (store: Store) => Store
  /** Starts counting the work of other processes; otherwise counting starts with the first reading. */
  begin: (store: MonitoringStore) => Promise<void>
  /** The exposition text, also while the database fails; `store` is null while it is not open. */
  read: (store: Read | null) => Promise<string>
}

export const EXPOSITION_TYPE = Registry.PROMETHEUS_CONTENT_TYPE

const REQUEST_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const TICK_SECONDS = [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300]
/** A client may send any method, but must not be able to add series without limit. */
const METHODS = ['GET', 'POST', 'PATCH', 'DELETE', 'PUT', 'HEAD', 'OPTIONS']

export function createMetrics(): Metrics {
  const process = new Registry()
  collectDefaultMetrics({ register: process })
  // These gauges have names reserved for counters; the ones by type next to them carry the same numbers.
  for (const misnamed of ['handles', 'requests', 'resources'])
    process.removeSingleMetric(`nodejs_active_${misnamed}_total`)
  const counters = createCounters(process)
  const certificate = gaugesOf(process)(
    'tls_certificate_not_after_seconds',
    'When the certificate that this process shows ends, as a Unix time; absent without one from files.',
  )
  // A gauge without a label would be 0 from the start: a certificate of 1970.
  certificate.remove()
  const follower = createFollower(counters)
  const database = createGauges()

  async function readDatabase(store: Read): Promise<string> {
    await follower.follow(store)
    await database.update(store, (await store.readClock()).now)
    return database.registry.metrics()
  }

  return {
    noteRequest({ method, route, status, duration_ms }) {
      const labels = { method: METHODS.includes(method) ? method : 'other', route: route ?? 'none' }
      counters.requests.inc({ ...labels, status })
      counters.requestSeconds.observe(labels, duration_ms / 1000)
    },

    noteDelivery: (delivered) => counters.deliveries.inc({ result: delivered ? 'delivered' : 'failed' }),

    noteCertificate: (until) => certificate.set(until / SECOND_MS),

    counting: (store) => ({
      ...store,
      async confirmExecution(tenant, ids, decide) {
        const outcome = await store.confirmExecution(tenant, ids, decide)
        if (outcome.kind === 'recorded') {
          const { status } = outcome.trade.report
          counters.confirmed.inc({ environment: tenant.environment, status })
        }
        return outcome
      },
    }),

    begin: follower.begin,

    async read(store) {
      const fromDatabase = store ? await readDatabase(store).catch(() => null) : null
      counters.databaseUp.set(fromDatabase === null ? 0 : 1)
      return (await process.metrics()) + (fromDatabase ?? '')
    },
  }
}

type Counters = ReturnType<typeof createCounters>

function createCounters(registry: Registry) {
  const registers = [registry]
  const counter = <L extends string>(name: string, help: string, labelNames: L[]) =>
    new Counter({ name: `tranche_${name}`, help, labelNames, registers })
  const counters = {
    requests: counter('http_requests_total', 'Requests answered, by route, method and status.', [
      'route',
      'method',
      'status',
    ]),
    requestSeconds: new Histogram({
      name: 'tranche_http_request_duration_seconds',
      help: 'How long requests took, by route and method.',
      labelNames: ['route', 'method'],
      buckets: REQUEST_SECONDS,
      registers,
    }),
    created: counter(
      'executions_created_total',
      'Executions created by any process since this one started.',
      ['environment'],
    ),
    confirmed: counter(
      'executions_confirmed_total',
      'Confirmations this process recorded, replays left out.',
      ['environment', 'status'],
    ),
    ticks: counter('ticks_total', 'Ticks of any process since this one started, by how they ended.', [
      'result',
    ]),
    passSeconds: new Histogram({
      name: 'tranche_tick_duration_seconds',
      help: 'How long finished ticks of any process took.',
      buckets: TICK_SECONDS,
      registers,
    }),
    deliveries: counter(
      'webhook_deliveries_total',
      'Wake-ups sent by ticks and sandbox calls inside this process, by result.',
      ['result'],
    ),
    databaseUp: gaugesOf(registry)(
      'database_up',
      '1 when the database could be read for this answer, else 0 and what it knows is left out.',
    ),
  }
  // A series that begins at 0 shows its first event as an increase.
  for (const environment of ['test', 'live']) {
    counters.created.inc({ environment }, 0)
    for (const status of ['filled', 'partial', 'failed', 'cancelled'])
      counters.confirmed.inc({ environment, status }, 0)
  }
  for (const result of ['finished', 'broken_off']) counters.ticks.inc({ result }, 0)
  for (const result of ['delivered', 'failed']) counters.deliveries.inc({ result }, 0)
  return counters
}

type Marks = Awaited<ReturnType<MonitoringStore['readMarks']>>

/** Adds to the counters the work of other processes since the last reading. */
function createFollower(counters: Counters) {
  let marks: Marks | null = null

  async function begin(store: MonitoringStore): Promise<void> {
    const found = await store.readMarks()
    marks ??= found
  }

  async function follow(store: MonitoringStore): Promise<void> {
    if (!marks) await begin(store)
    const from = marks as Marks | null
    if (!from) return
    const { created, last } = await store.countExecutionsAfter(from.executionId)
    for (const [environment, n] of Object.entries(created)) counters.created.inc({ environment }, n)
    from.executionId = last
    const passes = await store.listPassesAfter(from.passId)
    for (const pass of passes) {
      // Passes run one at a time: only the newest can still be under way.
      if (pass.finishedAt === null && pass === passes.at(-1)) break
      note(pass)
      from.passId = pass.passId
    }
  }

  function note({ at, finishedAt }: PassSpan): void {
    counters.ticks.inc({ result: finishedAt === null ? 'broken_off' : 'finished' })
    if (finishedAt !== null) counters.passSeconds.observe(Math.max(0, finishedAt - at) / 1000)
  }

  return { begin, follow }
}

/** They have a registry of their own, so that none is shown if they cannot be read. */
function createGauges() {
  const registry = new Registry()
  const add = gaugesOf(registry)
  const gauges = addGauges(add)
  const showPartners = createPartnerGauges(add)
  const takeStock = createStockTaker()

  async function update(store: MonitoringStore, now: Instant): Promise<void> {
    const stock = await takeStock(store, now)
    const vitals = await store.readVitals(now, stock)
    const findings = findingsOf(vitals, now)
    showVitals(vitals, now)
    showFindings(findings)
    showPartners(vitals.partners, findings, now)
    const backlog = await store.readBacklog(now)
    for (const environment of ENVIRONMENTS) {
      gauges.open.set({ environment }, backlog[environment].open)
      gauges.due.set({ environment }, backlog[environment].due)
      for (const [status, n] of Object.entries(stock.plans[environment]))
        gauges.plans.set({ environment, status }, n)
    }
    const { oldestDueAt } = backlog.live
    gauges.oldestDue.set(oldestDueAt === null ? 0 : since(oldestDueAt, now))
    const webhooks = await store.countWebhooks()
    gauges.webhooks.reset()
    for (const { environment, status, last, count } of webhooks)
      gauges.webhooks.set({ environment, status, last_result: last ?? 'none' }, count)
    gauges.walBytes.set((await store.walBytes()) ?? 0)
  }

  function showVitals(
    { scheduler, frozen, feed, price, disk, partners, results }: Vitals,
    now: Instant,
  ): void {
    const { lastFinishedAt } = scheduler
    setOrDrop(gauges.lastPass, lastFinishedAt && since(lastFinishedAt, now))
    gauges.schedulerLate.set(!frozen && schedulerLateness(scheduler, now).isLate ? 1 : 0)
    gauges.frozen.set(frozen ? 1 : 0)
    setOrDrop(gauges.feedDown, feed && (feed.down ? 1 : 0))
    setOrDrop(gauges.priceAge, price && since(price.at, now))
    setOrDrop(gauges.diskFree, disk?.freeBytes)
    setOrDrop(gauges.diskTotal, disk?.totalBytes)
    setOrDrop(gauges.dayGrowth, disk?.dayGrowthBytes)
    for (const gauge of [gauges.jobOk, gauges.jobAge]) gauge.reset()
    // A certificate has a metric of the process that shows it.
    for (const { job, host, ok, at } of results.filter(({ job }) => job !== 'certificate')) {
      gauges.jobOk.set({ job, host }, ok ? 1 : 0)
      gauges.jobAge.set({ job, host }, since(at, now))
    }
    const backups = results.flatMap(({ job, wellAt }) =>
      job === 'backup' && wellAt !== null ? [wellAt] : [],
    )
    setOrDrop(gauges.lastBackup, backups.length > 0 ? Math.max(...backups) / SECOND_MS : null)
    gauges.paused.set(partners.filter(({ webhook }) => webhook?.paused).length)
  }

  function showFindings(findings: readonly Finding[]): void {
    for (const [kind, severities] of Object.entries(FINDINGS))
      for (const severity of OF_THE_CHECK.includes(kind) ? [] : severities)
        gauges.findings.set(
          { kind, severity },
          findings.filter((one) => one.kind === kind && one.severity === severity).length,
        )
  }

  return { registry, update }
}

const addGauges = (add: AddGauge) => ({
  lastPass: add(
    'last_tick_age_seconds',
    'Time since the newest finished tick began; absent before the first.',
  ),
  schedulerLate: add(
    'scheduler_late',
    `1 when plans wait and no tick has finished for ${GRACE_MS / MINUTE_MS} minutes and ${GAPS_ALLOWED} usual gaps.`,
  ),
  frozen: add(
    'frozen',
    '1 while the database is frozen: nothing fires and nothing is delivered until tranche resume.',
  ),
  findings: add('findings', 'What tranche status warns of, by kind.', ['kind', 'severity']),
  feedDown: add('feed_down', '1 when the latest tick that asked a feed got no price; absent without a feed.'),
  priceAge: add('price_age_seconds', 'Age of the newest price; absent before the first.'),
  diskFree: add('disk_free_bytes', 'Room left on the disk of the database.'),
  diskTotal: add('disk_bytes', 'Room on the disk of the database, free and used.'),
  dayGrowth: add('database_day_growth_bytes', 'By how much the database grew in a day.'),
  jobOk: add('job_ok', '1 if the job went well when it ended last, else 0.', ['job', 'host']),
  jobAge: add('job_last_age_seconds', 'Time since the job ended last.', ['job', 'host']),
  lastBackup: add(
    'backup_last_success_timestamp_seconds',
    'When the last good backup with --keep was made, as a Unix time.',
  ),
  open: add('executions_open', 'Executions that await a confirmation.', ['environment']),
  due: add('executions_due', 'Executions that a poll would deliver now.', ['environment']),
  oldestDue: add(
    'executions_due_oldest_age_seconds',
    'Age of the oldest live execution that is due; 0 when there is none.',
  ),
  plans: add('plans', `Plans by status, at most ${STOCK_TAKEN_MS / SECOND_MS} s old.`, [
    'environment',
    'status',
  ]),
  webhooks: add('webhooks', 'Registered webhooks by status and by how their last attempt ended.', [
    'environment',
    'status',
    'last_result',
  ]),
  paused: add(
    'webhooks_paused',
    `Live webhooks that are paused after ${FAILURES_TO_PAUSE} failures in a row.`,
  ),
  walBytes: add('wal_bytes', 'Size of the write-ahead log.'),
})

function createPartnerGauges(add: AddGauge) {
  const gauges = {
    finding: add('partner_finding', '1 for each thing that tranche status warns of for a live partner.', [
      'partner',
      'kind',
      'severity',
    ]),
    held: add('partner_held', '1 if its plans are held (tranche partner hold), else 0.', ['partner']),
    polled: add('partner_last_poll_age_seconds', 'Time since the last poll; absent before the first.', [
      'partner',
    ]),
    confirmed: add(
      'partner_last_confirm_age_seconds',
      'Time since the last confirmation; absent before the first.',
      ['partner'],
    ),
    oldestDue: add('partner_due_oldest_age_seconds', 'Age of its oldest due execution; 0 without one.', [
      'partner',
    ]),
    orders: add('partner_orders', 'Confirmations of the last 24 hours, by what came of the order.', [
      'partner',
      'result',
    ]),
  }
  const unnamed = add(
    'partners_unnamed',
    `Live partners that are left out above, because ${PARTNERS_NAMED} are named.`,
  )

  return (partners: readonly PartnerVitals[], findings: readonly Finding[], now: Instant): void => {
    for (const gauge of Object.values(gauges)) gauge.reset()
    const named = namedPartners(partners, findings)
    unnamed.set(partners.length - named.length)
    const slugs = new Set<string>()
    for (const { tenant, held, polledAt, confirmedAt, oldestDueAt, orders } of named) {
      const partner = tenant.partnerSlug
      slugs.add(partner)
      gauges.held.set({ partner }, held ? 1 : 0)
      if (polledAt !== null) gauges.polled.set({ partner }, since(polledAt, now))
      if (confirmedAt !== null) gauges.confirmed.set({ partner }, since(confirmedAt, now))
      gauges.oldestDue.set({ partner }, oldestDueAt === null ? 0 : since(oldestDueAt, now))
      gauges.orders.set({ partner, result: 'filled' }, orders.filled)
      gauges.orders.set({ partner, result: 'failed' }, orders.failed)
    }
    for (const { tenant, kind, severity } of findings)
      if (tenant && slugs.has(tenant.partnerSlug))
        gauges.finding.set({ partner: tenant.partnerSlug, kind, severity }, 1)
  }
}

type AddGauge = ReturnType<typeof gaugesOf>

const gaugesOf =
  (registry: Registry) =>
  <L extends string = never>(name: string, help: string, labelNames: L[] = []): Gauge<L> =>
    new Gauge({ name: `tranche_${name}`, help, labelNames, registers: [registry] })

/** Sets a gauge, or removes it while it has no value: no alert rule fires on an absent gauge. */
function setOrDrop(gauge: Gauge, value: number | null | undefined): void {
  if (value === null || value === undefined) gauge.remove()
  else gauge.set(value)
}

const since = (then: Instant, now: Instant): number => Math.max(0, now - then) / SECOND_MS

// The partners that the metrics name: a bounded number, however many there are.

/** Partners with findings come first, then those with the most orders. */
export const PARTNERS_NAMED = 50

function namedPartners(
  partners: readonly PartnerVitals[],
  findings: readonly Finding[],
): readonly PartnerVitals[] {
  if (partners.length <= PARTNERS_NAMED) return partners
  const weight = new Map<string, number>()
  for (const { tenant, severity } of findings) {
    if (tenant === null) continue
    const before = weight.get(tenant.partnerSlug) ?? 0
    weight.set(tenant.partnerSlug, Math.max(before, severity === 'page' ? 2 : 1))
  }
  const rank = ({ tenant }: PartnerVitals) => weight.get(tenant.partnerSlug) ?? 0
  const orders = ({ orders: { filled, failed } }: PartnerVitals) => filled + failed
  return partners.toSorted((a, b) => rank(b) - rank(a) || orders(b) - orders(a)).slice(0, PARTNERS_NAMED)
}
