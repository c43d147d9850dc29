// A race of two hosts on one world, and what may be done and asked in it.

import assert from 'node:assert/strict'
import type { Confirmation } from '../../../src/core/confirmation.ts'
import type { Execution } from '../../../src/core/execution.ts'
import { adjust } from '../../../src/core/late-fill.ts'
import { btc, usd } from '../../../src/core/money.ts'
import type { Store } from '../../../src/store/store.ts'
import {
  AUDIT,
  type Contract,
  filled,
  link,
  openWorld,
  poll,
  problem,
  report,
  sendPlan,
  tick,
  type World,
} from '../world.ts'

export type Hosts = { world: World; here: Store; there: Store }
type Race = (hosts: Hosts, executions: readonly Execution[]) => Promise<void>

/** So many plans, each with one tranche out and delivered, for a race that is run once on all of them. */
export const PLANS = 12

/** A race of two hosts, after which the ledger must hold. */
export function race(run: Race, { delivered = true } = {}): Contract[string] {
  return async (t, open) => {
    const world = await openWorld(t, open)
    const { store, acme } = world
    await link(store, acme)
    for (let i = 0; i < PLANS; i++) await sendPlan(store, acme, { partnerPlanId: `p${i}` })
    await tick(world, '60000')
    await run({ world, here: store, there: await world.connect() }, delivered ? await poll(store, acme) : [])
    assert.deepEqual(await store.findFaults(), [])
  }
}

export const confirmOn = (store: Store, { acme }: World, { executionId, amount }: Execution, order: string) =>
  report(store, acme, executionId, filled(amount, order))

export const kindsOf = (made: readonly Confirmation[]): string[] => made.map(({ kind }) => kind).sort()

/** The code of what a piece of work was refused for, null when it was not. */
export async function refusal(work: Promise<unknown>, ...codes: string[]): Promise<string | null> {
  try {
    await work
    return null
  } catch (error) {
    const code = codes.find((one) => problem(one)(error))
    if (code === undefined) throw error
    return code
  }
}

export const ledgerOf = async ({ world: { store } }: Hosts, { executionId }: Execution) => {
  const found = await store.findExecution(executionId)
  assert.ok(found)
  const { reserved, spent } = found.window
  return { status: found.execution.status, order: found.trade?.report.partnerOrderId, reserved, spent }
}

export const adjustOn = (store: Store, executionId: string, amount: string, meanwhile = () => {}) =>
  store.adjustTrade(
    executionId,
    (seen, now) => {
      meanwhile()
      return adjust(seen, { usd: usd(amount), btc: btc('0.0002'), reason: 'wrong' }, now)
    },
    () => AUDIT,
  )

/**
 * Does two things at once: `second` begins when `first` has read what it decides on and has written nothing yet, so
 * that it reads the same unless it waits.
 */
export async function during<A, B>(
  first: (meanwhile: () => void) => Promise<A>,
  second: () => Promise<B>,
): Promise<[A, B]> {
  let begun: Promise<B> | undefined
  const made = await first(() => {
    begun ??= second()
  })
  return [made, await (begun ?? second())]
}
