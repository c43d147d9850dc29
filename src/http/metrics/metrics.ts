// The numbers for Prometheus. What this process does is counted as it happens; what only the database knows, because
// ticks run by cron did it, is read when somebody asks.

import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { ClockStore } from '../../store/clock-disputes.ts'
import type { MonitoringStore, PassSpan } from '../../store/monitoring.ts'
import type { Store } from '../../store/store.ts'
import { createGauges } from './service-gauges.ts'

export type RequestSeen = { method: string; route: string | null; status: number; duration_ms: number }

/** What is read for the metrics, and what time it is for the store: a host's own clock may be another. */
type Read = MonitoringStore & Pick<ClockStore, 'readClock'>

export type Metrics = {
  noteRequest: (seen: RequestSeen) => void
  noteDelivery: (delivered: boolean) => void
  /** The store that the service answers from, counting the confirmations it takes. */
  counting: (store: Store) => Store
  /** From here on, what other processes do is counted; without this, from the first reading on. */
  begin: (store: MonitoringStore) => Promise<void>
  /** The exposition text. `store` is null while the database is not open. Never rejects for the database's sake. */
  read: (store: Read | null) => Promise<string>
}

export const EXPOSITION_TYPE = Registry.PROMETHEUS_CONTENT_TYPE

const REQUEST_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const TICK_SECONDS = [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300]
/** A client chooses its method, but must not choose how many series there are. */
const METHODS = ['GET', 'POST', 'PATCH', 'DELETE', 'PUT', 'HEAD', 'OPTIONS']

export function createMetrics(): Metrics {
  const process = new Registry()
  collectDefaultMetrics({ register: process })
  // Gauges whose names end as a counter's must; the ones by type next to them say the same.
  for (const misnamed of ['handles', 'requests', 'resources'])
    process.removeSingleMetric(`nodejs_active_${misnamed}_total`)
  const counters = createCounters(process)
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

    counting: (store) => ({
      ...store,
      async changeExecution(tenant, ids, decide) {
        const outcome = await store.changeExecution(tenant, ids, decide)
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
  const counters = {
    requests: new Counter({
      name: 'tranche_http_requests_total',
      help: 'Requests answered, by route, method and status.',
      labelNames: ['route', 'method', 'status'],
      registers,
    }),
    requestSeconds: new Histogram({
      name: 'tranche_http_request_duration_seconds',
      help: 'How long requests took, by route and method.',
      labelNames: ['route', 'method'],
      buckets: REQUEST_SECONDS,
      registers,
    }),
    created: new Counter({
      name: 'tranche_executions_created_total',
      help: 'Executions created by any process since this one started.',
      labelNames: ['environment'],
      registers,
    }),
    confirmed: new Counter({
      name: 'tranche_executions_confirmed_total',
      help: 'Confirmations this process recorded, replays left out.',
      labelNames: ['environment', 'status'],
      registers,
    }),
    ticks: new Counter({
      name: 'tranche_ticks_total',
      help: 'Ticks of any process since this one started, by how they ended.',
      labelNames: ['result'],
      registers,
    }),
    passSeconds: new Histogram({
      name: 'tranche_tick_duration_seconds',
      help: 'How long finished ticks of any process took.',
      buckets: TICK_SECONDS,
      registers,
    }),
    deliveries: new Counter({
      name: 'tranche_webhook_deliveries_total',
      help: 'Wake-ups sent by ticks inside this process, by result.',
      labelNames: ['result'],
      registers,
    }),
    databaseUp: new Gauge({
      name: 'tranche_database_up',
      help: '1 when the database could be read for this answer, else 0 and what it knows is left out.',
      registers,
    }),
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

/** Adds to the counters what other processes have done since the last look. */
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
