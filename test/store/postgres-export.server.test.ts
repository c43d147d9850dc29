// A life played on both stores gives equal exports, to the byte.

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { REPORTS } from '../../src/billing/columns.ts'
import type { Report } from '../../src/core/confirmation.ts'
import { adjust } from '../../src/core/corrections/adjustment.ts'
import { acceptLate } from '../../src/core/corrections/late-fill.ts'
import type { Execution } from '../../src/core/execution.ts'
import { creditOf, type Issued, type Series } from '../../src/core/invoice.ts'
import { btc, price, type Usd, usd } from '../../src/core/money.ts'
import { monthBefore, periodOf } from '../../src/core/month.ts'
import type { Tenant } from '../../src/core/partner.ts'
import { formatInstant, HOUR_MS, plus } from '../../src/core/time.ts'
import { machineAt } from '../../src/machine.ts'
import type { Store } from '../../src/store/store.ts'
import { NASTY } from '../billing/books.ts'
import { type Chance, chanceOf } from '../simulation/chance.ts'
import { exportText } from '../simulation/system/record.ts'
import { temporaryFolder } from '../support/database.ts'
import * as postgres from './postgres.ts'
import * as sqlite from './sqlite.ts'
import {
  AUDIT,
  allExecutions,
  type Backend,
  filled,
  link,
  poll,
  populate,
  report,
  sendPlan,
  setUser,
  T0,
  tick,
} from './world.ts'

const MONTHS = ['2026-01', '2026-02', '2026-03']
const STEP_MS = 13 * HOUR_MS
const STEPS = 110
const SEED = 15

/** A partner's report of an order: all, part or nothing of it, with fees that have many places. */
function sayOf(chance: Chance, { executionId, amount }: Execution): Report {
  const common = { partnerOrderId: `order ${executionId}`, executedAt: null }
  if (chance.happens(0.15)) return { ...common, status: 'failed', failureReason: chance.pick(NASTY) }
  if (chance.happens(0.05)) return { ...common, status: 'cancelled', failureReason: null }
  const part = chance.happens(0.2)
  return {
    ...common,
    status: part ? 'partial' : 'filled',
    usdAmount: (part ? amount / 3n : amount) as Usd,
    btcAmount: btc(`0.000${chance.between(10_000, 99_999)}`),
    executionPrice: price(`${chance.between(50_000, 70_000)}.5`),
    partnerFee: chance.happens(0.5) ? usd(`0.${chance.between(100_000, 999_999)}`) : null,
  }
}

/** Corrects it downwards, as an operator does. */
async function correct(store: Store, { executionId }: Execution): Promise<void> {
  const trade = (await store.findExecution(executionId))?.trade
  if (!trade || !('usdAmount' in trade.report)) return
  const wanted = { usd: usd('0.01'), btc: btc('0.00000001'), reason: 'the venue said, "half"\nof it' }
  await store.adjustTrade(
    executionId,
    (seen, now) => adjust(seen, wanted, now),
    () => AUDIT,
  )
}

const SERIES: Series = { prefix: 'R-', first: 1, digits: 4 }

/** Issues all partners' invoices of the past month, and credits a little of each. */
async function invoice(store: Store, tenants: readonly Tenant[], month: string): Promise<void> {
  await store.fixPeriod(periodOf(month))
  for (const slug of new Set(tenants.map(({ partnerSlug }) => partnerSlug))) {
    const drawn = {
      net: usd('100.01'),
      tax: usd('19.00'),
      details: JSON.stringify({ dueDays: 14, notes: NASTY }),
    }
    const { issued } = await store.issueInvoice({ slug, month, ...drawn }, SERIES, () => AUDIT)
    const credit = (seen: Issued, earlier: readonly Issued[]) =>
      creditOf(seen, { earlier, net: usd('0.01'), tax: null, details: '{}' })
    await store.creditInvoice(issued.number, SERIES, credit, () => AUDIT)
  }
}

async function live(t: TestContext, backend: Backend): Promise<Store> {
  const chance = chanceOf(SEED)
  const { machine, setClock } = machineAt(T0)
  const store = await backend.open(temporaryFolder(t), machine.clock)
  t.after(() => store.close())
  const world = { store, machine: { ...machine, random: (count: number) => chance.bytes(count) } }
  const tenants: Tenant[] = Object.values(await populate(store))
  for (const tenant of tenants)
    for (const name of NASTY) {
      await link(store, tenant, name)
      await sendPlan(store, tenant, {
        partnerUserId: name,
        partnerPlanId: `${name}.plan`,
        amount: usd('2000'),
      })
    }
  let corrected = 0
  let present = ''
  for (let step = 0; step < STEPS; step++) {
    setClock(plus(machine.clock(), STEP_MS))
    await tick(world, `${chance.between(50_000, 70_000)}`)
    const month = formatInstant(machine.clock()).slice(0, 7)
    if (month !== present) await invoice(store, tenants, monthBefore(month))
    present = month
    for (const tenant of tenants) {
      const due = await poll(store, tenant)
      const late = step === 60 ? due[0] : undefined
      if (late) {
        await setUser(store, tenant, late.partnerUserId, 'disabled')
        const said = filled(usd('1.23'), `late ${late.executionId}`)
        assert.equal((await report(store, tenant, late.executionId, said)).kind, 'refused')
        await store.acceptLateFill({ executionId: late.executionId, reportId: null }, acceptLate, () => AUDIT)
      }
      const kept = due.filter((one) => one.partnerUserId !== late?.partnerUserId)
      await Promise.all(kept.map((one) => report(store, tenant, one.executionId, sayOf(chance, one))))
      for (const one of kept) {
        if (!chance.happens(0.05)) continue
        corrected += 1
        await correct(store, one)
      }
    }
  }
  assert.ok(corrected > 10)
  return store
}

test('the same life on a file and on a server leads to the same exports, to the byte', async (t) => {
  const [onFile, onServer] = [await live(t, sqlite), await live(t, postgres)]
  assert.deepEqual(await allExecutions(onServer), await allExecutions(onFile))
  for (const month of MONTHS)
    for (const kind of REPORTS) {
      const text = await exportText(onFile, { month, report: kind })
      assert.equal(await exportText(onServer, { month, report: kind }), text)
      assert.ok(text.split('\n').length > 3, `${kind} of ${month} is empty`)
    }
  for (const store of [onFile, onServer]) assert.deepEqual(await store.findFaults(), [])
  assert.deepEqual(
    (await onServer.findWarnings()).map(({ kind }) => kind),
    (await onFile.findWarnings()).map(({ kind }) => kind).filter((kind) => !OF_DISK.includes(kind)),
  )
})

const OF_DISK = ['disk_low', 'file_open']
