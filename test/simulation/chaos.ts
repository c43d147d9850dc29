// A partner, its users and its operator doing everything the service lets them, in no good order.

import assert from 'node:assert/strict'
import { adjust } from '../../src/core/adjustment.ts'
import type { Execution } from '../../src/core/execution.ts'
import { FREQUENCIES } from '../../src/core/frequency.ts'
import { DAY_MS, HOUR_MS, plus } from '../../src/core/instant.ts'
import { acceptLate } from '../../src/core/late-fill.ts'
import { btc, type Usd, usd } from '../../src/core/money.ts'
import type { Tenant } from '../../src/core/partner.ts'
import type { PlanRequest } from '../../src/core/plan.ts'
import { Problem } from '../../src/core/problem.ts'
import type { Report } from '../../src/core/report.ts'
import {
  AUDIT,
  allExecutions,
  failed,
  filled,
  link,
  poll,
  report,
  sendPlan,
  setUser,
} from '../store/world.ts'
import type { Simulation } from './simulation.ts'

export type Chaos = Simulation & {
  /** What was recorded of each execution: it must be answered for ever. */
  recorded: Map<string, { tenant: Tenant; said: Report }>
  refusals: Map<string, number>
  plans: number
}

const USERS = ['u1', 'u2', 'u3']

const note = ({ refusals }: Chaos, { code }: Problem) => refusals.set(code, (refusals.get(code) ?? 0) + 1)

/** Runs an action that may be refused; anything but a refusal of the closed list is a bug. */
async function tryTo<T>(chaos: Chaos, action: Promise<T>): Promise<T | null> {
  try {
    return await action
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    note(chaos, error)
    return null
  }
}

export async function stir(chaos: Chaos): Promise<void> {
  const { store, happens, pick, acme, acmeLive, bolt } = chaos
  const tenant = pick([acme, acme, acmeLive, bolt])
  if (happens(0.15)) await tryTo(chaos, sendPlan(store, tenant, anyPlan(chaos)))
  if (happens(0.03)) await tryTo(chaos, link(store, tenant, pick(USERS)))
  if (happens(0.02)) await tryTo(chaos, setUser(store, tenant, pick(USERS), pick(['linked', 'disabled'])))
  if (happens(0.02)) {
    const [status, minTranche] = [
      pick(['active', 'active', 'disabled'] as const),
      pick([usd('1'), usd('5'), usd('25')]),
    ]
    await store.changePartner(tenant.partnerSlug, (seen) => ({ ...seen, status, minTranche }), AUDIT)
  }
  if (happens(0.4)) await trade(chaos, tenant)
  if (happens(0.1)) await repeat(chaos)
  if (happens(0.03)) await decideLate(chaos)
  if (happens(0.03)) await adjustOne(chaos)
  upsetClock(chaos)
}

function anyPlan(chaos: Chaos): Partial<PlanRequest> {
  const { happens, pick, between, now } = chaos
  if (happens(0.3) && chaos.plans < 25) chaos.plans += 1
  return {
    partnerPlanId: `p${between(0, chaos.plans)}`,
    partnerUserId: happens(0.05) ? 'nobody' : pick(USERS),
    amount: pick([usd('1.00'), usd('12.34'), usd('60.00'), usd('333.33'), usd('1000000.00')]),
    frequency: pick(FREQUENCIES),
    ...(happens(0.3) && { status: pick(['active', 'active', 'paused', 'cancelled'] as const) }),
    ...(happens(0.2) && { smartTimingEnabled: happens(0.7) }),
    ...(happens(0.3) && { startDate: plus(now(), between(-30 * DAY_MS, 3 * DAY_MS)) }),
  }
}

async function trade(chaos: Chaos, tenant: Tenant): Promise<void> {
  const { store, between, happens } = chaos
  const due = await poll(store, tenant, between(1, 20))
  // Some of what was delivered is never spoken of again until its lease ends.
  for (const execution of due) {
    assert.equal(chaos.recorded.has(execution.executionId), false, 'what is recorded is not delivered again')
    if (happens(0.75)) await confirmOne(chaos, tenant, execution)
  }
}

async function confirmOne(chaos: Chaos, tenant: Tenant, execution: Execution): Promise<void> {
  const said = anyReport(chaos, execution.amount)
  const answer = await tryTo(chaos, report(chaos.store, tenant, execution.executionId, said))
  if (answer?.kind === 'recorded') chaos.recorded.set(execution.executionId, { tenant, said })
  if (answer?.kind === 'refused') note(chaos, answer.problem)
}

function anyReport({ happens, between, pick, recorded }: Chaos, amount: Usd): Report {
  const taken = [...recorded.values()].at(-1)?.said.partnerOrderId
  const order = taken !== undefined && happens(0.03) ? taken : undefined
  const part = ((amount * BigInt(between(1, 999_999))) / 1_000_000n) as Usd
  const kinds: Report[] = [
    filled(amount, order),
    filled(part, order, 'partial'),
    failed(order),
    filled((amount + 1n) as Usd),
  ]
  return { ...pick([...kinds, filled(amount, order), filled(amount, order)]) }
}

/** Sends an old report again, whole or with another outcome, or reports on whatever execution there is. */
async function repeat(chaos: Chaos): Promise<void> {
  const { store, recorded, happens, pick } = chaos
  if (recorded.size > 0) {
    const [executionId, { tenant, said }] = pick([...recorded])
    assert.equal((await report(store, tenant, executionId, said)).kind, 'replayed')
    assert.equal(await tryTo(chaos, report(store, tenant, executionId, failed())), null)
  }
  const all = await allExecutions(store)
  if (all.length === 0 || !happens(0.7)) return
  const execution = pick(
    all
      .filter(({ status }) => happens(0.1) || status === 'cancelled' || status === 'pending')
      .concat(all.slice(-1)),
  )
  await confirmOne(chaos, pick([execution.tenant, execution.tenant, chaos.bolt]), execution)
}

async function decideLate(chaos: Chaos): Promise<void> {
  for (const late of await chaos.store.listLateFills({ after: null, limit: 1_000 })) {
    if (late.decidedAt !== null || !chaos.happens(0.5)) continue
    const { executionId, tenant } = late.execution
    const ids = { executionId, reportId: late.reportId }
    if (chaos.happens(0.2)) {
      await chaos.store.dismissLateReports(ids, () => AUDIT)
      continue
    }
    // Whatever it became, a trade or an adjustment beside one: the same report is answered as recorded from now on.
    const made = await tryTo(
      chaos,
      chaos.store.acceptLateReport(ids, acceptLate, () => AUDIT),
    )
    if (made) chaos.recorded.set(executionId, { tenant, said: late.report })
  }
}

/** Sets right what some execution came to: to nothing, to a part, or to more than was reserved for it. */
async function adjustOne(chaos: Chaos): Promise<void> {
  const { store, recorded, pick, between } = chaos
  if (recorded.size === 0) return
  const [executionId] = pick([...recorded])
  const amount = (await store.findExecution(executionId))?.execution.amount ?? usd('1.00')
  const dollars = ((amount * BigInt(between(0, 15))) / 10n) as Usd
  const right = { usd: dollars, btc: btc(dollars === 0n ? '0' : `0.0${between(1, 9)}`), reason: 'wrong' }
  await tryTo(
    chaos,
    store.adjustTrade(
      executionId,
      (seen, now) => adjust(seen, right, now),
      () => AUDIT,
    ),
  )
}

/** Machines sleep, and clocks are set: forwards, and backwards. */
function upsetClock({ happens, between, advance }: Chaos): void {
  if (happens(0.02)) advance(between(0, 30) * HOUR_MS)
  if (happens(0.02)) advance(-between(0, 12 * HOUR_MS))
}
