// The numbers for Prometheus that are read afresh for each answer: what the database knows, and the findings drawn from
// it.

import { Registry } from 'prom-client'
import { type Finding, findingsOf, VITAL_FINDINGS } from '../../core/findings.ts'
import { type Instant, MINUTE_MS, SECOND_MS } from '../../core/instant.ts'
import { ENVIRONMENTS } from '../../core/partner.ts'
import { GAPS_ALLOWED, GRACE_MS, schedulerLateness } from '../../core/scheduler-lateness.ts'
import type { Vitals } from '../../core/vitals.ts'
import { FAILURES_TO_PAUSE } from '../../core/webhook-pause.ts'
import type { MonitoringStore } from '../../store/monitoring.ts'
import { type AddGauge, gaugesOf, setOrDrop, since } from './gauge.ts'
import { createPartnerGauges } from './partner-gauges.ts'
import { createStockTaker, STOCK_TAKEN_MS } from './plans-and-unspent-windows.ts'

/** In a registry of its own, so that none of them is shown when they could not be read. */
export function createGauges() {
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

  function showVitals({ scheduler, feed, price, disk, partners }: Vitals, now: Instant): void {
    const { lastFinishedAt } = scheduler
    setOrDrop(gauges.lastPass, lastFinishedAt && since(lastFinishedAt, now))
    gauges.schedulerLate.set(schedulerLateness(scheduler, now).isLate ? 1 : 0)
    setOrDrop(gauges.feedDown, feed && (feed.down ? 1 : 0))
    setOrDrop(gauges.priceAge, price && since(price.at, now))
    setOrDrop(gauges.diskFree, disk?.freeBytes)
    setOrDrop(gauges.diskTotal, disk?.totalBytes)
    setOrDrop(gauges.dayGrowth, disk?.dayGrowthBytes)
    gauges.paused.set(partners.filter(({ webhook }) => webhook?.paused).length)
  }

  function showFindings(findings: readonly Finding[]): void {
    for (const [kind, severity] of Object.entries(VITAL_FINDINGS))
      gauges.findings.set({ kind, severity }, findings.filter((one) => one.kind === kind).length)
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
  findings: add('findings', 'What tranche status warns of, by kind.', ['kind', 'severity']),
  feedDown: add('feed_down', '1 when the latest ticks got no price from their feed; absent without a feed.'),
  priceAge: add('price_age_seconds', 'Age of the newest price; absent before the first.'),
  diskFree: add('disk_free_bytes', 'Room left on the disk of the database.'),
  diskTotal: add('disk_bytes', 'Room on the disk of the database, free and used.'),
  dayGrowth: add('database_day_growth_bytes', 'By how much the database grew in a day.'),
  open: add('executions_open', 'Executions that await a confirmation.', ['environment']),
  due: add('executions_due', 'Executions that a poll would hand out now.', ['environment']),
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
