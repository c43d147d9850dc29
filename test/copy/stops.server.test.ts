// What a database that gave way to a copy still tells, and what is carried over from it: on a file and on a server.

import assert from 'node:assert/strict'
import { copyFileSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import SQLite from 'better-sqlite3'
import { databaseOf } from '../../src/cli/context.ts'
import type { ExecutionId } from '../../src/core/execution.ts'
import { cancelByHand } from '../../src/core/execution.ts'
import type { Issued } from '../../src/core/invoice.ts'
import { revoke } from '../../src/core/key.ts'
import { type Usd, usd } from '../../src/core/money.ts'
import { periodOf } from '../../src/core/month.ts'
import { setHeld, setPartnerStatus, type Tenant } from '../../src/core/partner.ts'
import type { PlanStatus } from '../../src/core/plan.ts'
import { DAY_MS, HOUR_MS, type Instant, plus } from '../../src/core/time.ts'
import { linkUser } from '../../src/core/user.ts'
import { register } from '../../src/core/webhook.ts'
import type { Frequency } from '../../src/core/window.ts'
import type { Store } from '../../src/store/store.ts'
import { lay } from '../releases/release.ts'
import {
  AUDIT,
  allPlans,
  filled,
  keyFor,
  poll,
  populate,
  report,
  sendPlan,
  setUser,
  tick,
} from '../store/world.ts'
import { emptyDatabase, ourServer } from '../support/postgres-server.ts'
import { errorOf, openShell, runHere, type Shell, succeed, T0 } from '../support/service.ts'

type Place = {
  shell: Shell
  db: string
  copy: string
  on: (...argv: string[]) => Promise<string>
  restore: (...argv: string[]) => Promise<Told>
  within: <T>(work: (store: Store, live: Tenant) => Promise<T>) => Promise<T>
}
type Told = {
  erased_again: number
  since_copy: {
    stops: { stop: string; subject: string; carried: boolean }[]
    lacking: Record<string, number>
    trades: { partner_order_id: string; usd_amount: string; idempotency_key: string | null }[]
    late_fills: { partner_order_id: string; usd_amount: string; partner_plan_id: string | null }[]
    done: { action: string; subject: string }[]
    issued: { invoice_number: string; kept: boolean }[]
    changed_plans: Record<string, string>[]
    unread: string[]
  } | null
  replaced: string
  next: { command: string }[]
}

async function placeOf(t: TestContext, kind: 'file' | 'server'): Promise<Place> {
  const shell = openShell(t)
  if (kind === 'server') await ourServer()
  const db = kind === 'file' ? shell.file : emptyDatabase(join(dirname(shell.file), 'stops'))
  const copy = join(dirname(shell.file), 'copy.db')
  const on: Place['on'] = (...argv) => succeed(shell, '--db', db, ...argv)
  return {
    shell,
    db,
    copy,
    on,
    restore: async (...argv) => JSON.parse(await on('restore', copy, '--force', '--json', ...argv)),
    async within(work) {
      const store = await (await databaseOf(db, shell.machine)).open({ create: true })
      try {
        const live = (await store.findTenant('acme', 'live')) ?? (await populate(store)).acmeLive
        return await work(store, live)
      } finally {
        await store.close()
      }
    },
  }
}

const linkWithMail = (store: Store, tenant: Tenant, partnerUserId: string, email = 'ann@example.org') =>
  store.changeUser(tenant, partnerUserId, (seen, now) =>
    linkUser(
      seen,
      { partnerUserId, email, consentAccepted: true, consentVersion: 'v1', consentTimestamp: T0 },
      now,
    ),
  )

const USERS = ['u1', 'u2', 'u3', 'u4', 'u5', 'u6', 'u7']

/** Every kind of thing that can be stopped, each of a user of its own, in a copy. */
async function copied(place: Place): Promise<void> {
  await place.within(async (store, live) => {
    await store.addKey({ ...keyFor(live), keyId: 'key_leaked' }, AUDIT)
    await store.addKey({ ...keyFor(live), keyId: 'key_ending' }, AUDIT)
    for (const user of USERS) {
      await linkWithMail(store, live, user)
      await sendPlan(store, live, { partnerUserId: user, partnerPlanId: `plan-${user}` })
    }
    await tick({ store, machine: place.shell.machine }, '60000')
    await poll(store, live)
  })
  await place.on('backup', place.copy)
  place.shell.advance(HOUR_MS)
}

type Stopping = (store: Store, live: Tenant) => Promise<unknown>

const openOf = async (store: Store, user: string): Promise<ExecutionId> => {
  const all = await store.listExecutions(
    { slug: 'acme', environment: 'live', status: null, stuck: false },
    { after: null, limit: 100 },
  )
  return all.find(({ partnerUserId }) => partnerUserId === user)?.executionId ?? assert.fail(user)
}

const STOPS: Record<string, Stopping> = {
  partner_disabled: (store) =>
    store.changePartner('bolt', (now, at) => setPartnerStatus(now, 'disabled', at), AUDIT),
  partner_held: (store) => store.changePartner('acme', (now, at) => setHeld(now, true, at), AUDIT),
  key_ended: (store) =>
    store.changeKey('key_leaked', (key, time) => ({ key: revoke(key, time), successor: null }), AUDIT),
  plan_cancelled: (store, live) =>
    sendPlan(store, live, { partnerUserId: 'u1', partnerPlanId: 'plan-u1', status: 'cancelled' }),
  plan_paused: (store, live) =>
    sendPlan(store, live, { partnerUserId: 'u2', partnerPlanId: 'plan-u2', status: 'paused' }),
  plan_postponed: async (store, live) => {
    const plan = { partnerUserId: 'u7', partnerPlanId: 'plan-u7' }
    await sendPlan(store, live, { ...plan, status: 'paused' })
    await sendPlan(store, live, { ...plan, status: 'active', startDate: plus(T0, 30 * DAY_MS) })
  },
  plan_untimed: (store, live) =>
    sendPlan(store, live, { partnerUserId: 'u3', partnerPlanId: 'plan-u3', smartTimingEnabled: false }),
  user_disabled: (store, live) => setUser(store, live, 'u4', 'disabled'),
  execution_cancelled: async (store) =>
    store.cancelExecution(await openOf(store, 'u5'), (seen, now) => cancelByHand(seen, 'no', now), AUDIT),
  user_erased: (store, live) => store.eraseUser(live, 'u6', AUDIT),
}

/** What each of them comes to, as an operator sees it. */
const stateOf = (place: Place) =>
  place.within(async (store, live) => {
    const plans = (await allPlans(store)).filter(({ tenant }) => tenant.partnerSlug === 'acme')
    const planOf = (id: string) => plans.find(({ partnerPlanId }) => partnerPlanId === id)
    const held = await store.findPartner('acme')
    const key = (await store.listKeys('acme')).find(({ keyId }) => keyId === 'key_leaked')
    const execution = await store.findExecution(await openOf(store, 'u5'))
    const user = await store.findUser(live, 'u6')
    assert.deepEqual(await store.findFaults(), [])
    return {
      partner_disabled: (await store.findPartner('bolt'))?.status === 'disabled',
      partner_held: held?.held === true,
      key_ended: key?.revokedAt !== null,
      plan_cancelled: planOf('plan-u1')?.status === 'cancelled',
      plan_paused: planOf('plan-u2')?.status === 'paused',
      plan_postponed: planOf('plan-u7')?.status === 'paused',
      plan_untimed: planOf('plan-u3')?.smartTimingEnabled === false,
      user_disabled: (await store.findUser(live, 'u4'))?.status === 'disabled',
      execution_cancelled: execution?.execution.status === 'cancelled',
      user_erased: user?.email === null,
    }
  })

const UNKNOWN = 'exec_019b8b9a2c007a1b9c2d3e4f5a6b7c8d' as ExecutionId

const only = (...kinds: string[]) =>
  Object.fromEntries(Object.keys(STOPS).map((kind) => [kind, kinds.includes(kind)]))

const kindsOf = (told: Told): string[] => [...new Set(told.since_copy?.stops.map(({ stop }) => stop))].sort()

for (const kind of ['file', 'server'] as const) {
  test(`on a ${kind} each stop since the copy is told and carried over by itself, and nothing is started`, async (t) => {
    const place = await placeOf(t, kind)
    await copied(place)
    assert.deepEqual(kindsOf(await place.restore('--carry-stops')), [])
    for (const [stop, make] of Object.entries(STOPS)) {
      await place.on('restore', place.copy, '--force')
      await place.on('restore', '--resume')
      await place.within(make)
      const told = await place.restore('--carry-stops')
      assert.ok(kindsOf(told).includes(stop), stop)
      assert.equal(new Map(Object.entries(await stateOf(place))).get(stop), true, stop)
      const audits = JSON.parse(await place.on('audit', '--json')) as {
        action: string
        detail: { stop?: string }
      }[]
      const said = audits.filter(
        ({ action, detail }) => action === 'database.carry_stop' && detail.stop === stop,
      )
      assert.equal(said.length, stop === 'user_erased' ? 0 : 1, stop)
      place.shell.advance(1_000)
    }
  })

  test(`on a ${kind} all stops are carried over at once, safe to repeat, and erasures without being asked`, async (t) => {
    const place = await placeOf(t, kind)
    await copied(place)
    const copiedEntries = JSON.parse(await place.on('audit', '--json')).length
    for (const make of Object.values(STOPS)) await place.within(make)
    await place.within(async (store, live) => {
      await report(store, live, await openOf(store, 'u2'), filled(usd('1'), 'order-1'))
      await tick({ store, machine: place.shell.machine }, '60000')
    })
    const told = await place.restore()
    assert.deepEqual(kindsOf(told), Object.keys(STOPS).sort())
    assert.deepEqual(await stateOf(place), only('user_erased'))
    assert.deepEqual(
      told.since_copy?.trades.map(({ partner_order_id, usd_amount, idempotency_key }) => [
        partner_order_id,
        usd_amount,
        idempotency_key,
      ]),
      [['order-1', '1.00', 'plan-u2:2026-01-05T00:00:00.000Z:0']],
    )
    assert.equal(told.since_copy?.lacking.trades, 1)
    assert.deepEqual(told.since_copy?.unread, [])
    assert.match(told.next[0]?.command ?? '', /--carry-stops$/)
    // The one that gave way now knows nothing of the stops; what it had replaced does.
    place.shell.advance(1_000)
    const again = await place.restore('--carry-stops')
    assert.deepEqual(kindsOf(again), Object.keys(STOPS).sort())
    // The audit log begins with the restore, and tells then what that has carried over.
    const entries = JSON.parse(await place.on('audit', '--json')) as { at: string; action: string }[]
    const [first, ...after] = entries.slice(copiedEntries).map(({ action }) => action)
    assert.deepEqual(
      [first, [...new Set(after)].sort()],
      ['database.restore', ['database.carry_stop', 'user.erase']],
    )
    const times = entries.map(({ at }) => at)
    assert.deepEqual(times, times.toSorted())
    const all = only(...Object.keys(STOPS))
    assert.deepEqual(await stateOf(place), all)
    place.shell.advance(1_000)
    await place.restore('--carry-stops')
    assert.deepEqual(await stateOf(place), all)
    assert.equal(JSON.parse(await place.on('tick', '--price', '60000', '--json')).stands_still, true)
    await place.on('restore', '--resume')
    await place.on('tick', '--price', '60000')
    assert.deepEqual(await stateOf(place), all)
  })

  test(`on a ${kind} a key that was given an end since the copy ends then, and is not revoked before`, async (t) => {
    const place = await placeOf(t, kind)
    await copied(place)
    const endOf = (keyId: string) =>
      place.within(async (store) => {
        const key = (await store.listKeys('acme')).find((one) => one.keyId === keyId)
        return [key?.expiresAt, key?.revokedAt]
      })
    const end = plus(T0, 10 * HOUR_MS)
    await place.within((store) =>
      store.changeKey('key_ending', (key) => ({ key: { ...key, expiresAt: end }, successor: null }), AUDIT),
    )
    await place.restore()
    assert.deepEqual(await endOf('key_ending'), [null, null])
    place.shell.advance(1_000)
    await place.restore('--carry-stops')
    assert.deepEqual(await endOf('key_ending'), [end, null])
    assert.deepEqual(await endOf('key_leaked'), [null, null])
  })

  test(`on a ${kind} the words of a restore say of an erasure that it is carried over, and hold nobody twice`, async (t) => {
    const place = await placeOf(t, kind)
    await copied(place)
    const words = (...argv: string[]) => place.on('restore', place.copy, '--force', ...argv)
    const isLeft = /NOT carried over \(--carry-stops does\):\n((?: {2}\S.*\n)+)/
    await place.within(STOPS.user_erased as Stopping)
    const erased = await words()
    assert.match(
      erased,
      /1 user erased again\nStopped since the copy, and carried over:\n {2}user_erased acme live u6\n/,
    )
    assert.doesNotMatch(erased, /NOT carried over/)
    await place.on('restore', '--resume')
    place.shell.advance(1_000)
    await place.within(STOPS.partner_held as Stopping)
    await place.within((store, live) =>
      sendPlan(store, live, { partnerUserId: 'u1', partnerPlanId: 'plan-u1', amount: usd('12.50') }),
    )
    const left = await words()
    assert.equal(isLeft.exec(left)?.[1], '  partner_held acme\n')
    assert.match(left, /tranche.* partner hold acme/)
    place.shell.advance(1_000)
    const carried = await words('--carry-stops')
    assert.match(carried, /Plans changed since the copy/)
    assert.doesNotMatch(carried, /NOT carried over|partner hold acme/)
  })

  test(`on a ${kind} what was issued since the copy is kept, so that no number is given twice`, async (t) => {
    const place = await placeOf(t, kind)
    const series = { prefix: 'R-', first: 1, digits: 3 }
    const entry = ({ number, partnerSlug }: Issued) => ({
      ...AUDIT,
      action: 'billing.issue',
      subject: partnerSlug,
      detail: { invoice_number: number },
    })
    const issue = (slug: string, net = '100.00') =>
      place.within(async (store) => {
        await store.fixPeriod(periodOf('2025-12'))
        const of = { slug, month: '2025-12', net: usd(net), tax: usd('19.00'), details: `{"of":"${slug}"}` }
        return (await store.issueInvoice(of, series, entry)).issued
      })
    const ofAll = (store: Store) =>
      store.listInvoices(
        { slug: null, from: 0 as Instant, before: Number.MAX_SAFE_INTEGER as Instant },
        { after: null, limit: 9 },
      )
    await copied(place)
    const first = await issue('acme')
    await place.on('backup', place.copy, '--force')
    place.shell.advance(1_000)
    const second = await issue('bolt')
    const credit = await place.within((store) =>
      store.creditInvoice(
        'R-001',
        series,
        () => ({ net: usd('5.00'), tax: usd('0.00'), details: '{"reason":"=1"}' }),
        entry,
      ),
    )
    place.shell.advance(1_000)
    const told = await place.restore()
    const kept = (number: string, slug: string) => ({
      invoice_number: number,
      partner_slug: slug,
      month: '2025-12',
      kept: true,
    })
    assert.deepEqual(told.since_copy?.issued, [kept('R-002', 'bolt'), kept('R-003', 'acme')])
    assert.deepEqual([told.since_copy?.unread, told.since_copy?.done], [[], []])
    assert.deepEqual(await place.within(ofAll), [first, second, credit])
    // Once more from the same backup, from what was replaced before that, and the number after the last goes on.
    place.shell.advance(1_000)
    await place.restore('--carry-stops')
    assert.deepEqual(await place.within(ofAll), [first, second, credit])
    const audit = await place.on('audit', '--json')
    assert.match(audit, /"database\.carry_invoice".*"R-003"/)
    await place.on('restore', '--resume')
    assert.deepEqual(await issue('bolt', '55.00'), second)
    assert.deepEqual(await place.within((store) => store.findFaults()), [])
  })

  test(`on a ${kind} a second restore tells what only reports and the audit log of the first one know`, async (t) => {
    const place = await placeOf(t, kind)
    await place.within((store, live) => linkWithMail(store, live, 'u1'))
    await place.within((store, live) =>
      sendPlan(store, live, { partnerUserId: 'u1', partnerPlanId: 'plan-u1' }),
    )
    await place.on('backup', place.copy)
    const first = await place.within(async (store, live) => {
      await tick({ store, machine: place.shell.machine }, '60000')
      await poll(store, live)
      const executionId = await openOf(store, 'u1')
      await report(store, live, executionId, filled(usd('1'), 'order-1'))
      return executionId
    })
    place.shell.advance(1_000)
    const told = await place.restore()
    assert.deepEqual([told.since_copy?.trades.length, told.since_copy?.late_fills], [1, []])
    place.shell.advance(1_000)
    await place.within(async (store, live) => {
      // The partner sends all again, of which the restored ledger knows nothing.
      await store.keepUnknownFill(live, first, filled(usd('1'), 'order-1'))
      await store.keepUnknownFill(live, UNKNOWN, filled(usd('1'), 'order-2'))
    })
    await place.on('tier', 'set', 'basic', '--rate-bps', '30')
    place.shell.advance(1_000)
    const again = (await place.restore()).since_copy
    assert.deepEqual(
      again?.trades.map((one) => one.partner_order_id),
      ['order-1'],
    )
    assert.deepEqual(
      again?.late_fills.map((one) => [one.partner_order_id, one.partner_plan_id]),
      [['order-2', null]],
    )
    assert.deepEqual(
      again?.done.map(({ action, subject }) => [action, subject]),
      [['tier.set', 'basic']],
    )
    assert.deepEqual(again?.unread, [])
    place.shell.advance(1_000)
    // In words, and of all that were replaced.
    const words = await place.on('restore', place.copy, '--force')
    assert.match(words, /The copy lacks 1 execution, 1 purchase\./)
    assert.match(
      words,
      /late fills there alone:\n {2}acme live of an unknown plan, order order-2: 1\.00 USD, \S+ BTC\n/,
    )
    assert.match(words, /Done by operators since the copy, and not in it:\n {2}\S+Z tier\.set basic\n/)
  })

  test(`on a ${kind} a restore after a resume names what it does not read, and what to do about it`, async (t) => {
    const place = await placeOf(t, kind)
    await copied(place)
    await place.within(STOPS.plan_cancelled as Stopping)
    const { replaced } = await place.restore()
    await place.on('restore', '--resume')
    place.shell.advance(1_000)
    const late = await place.restore('--carry-stops')
    assert.deepEqual(kindsOf(late), [])
    const why = `${replaced} gave way before the last resume: to have its stops too, restore it first, then the copy`
    assert.deepEqual(late.since_copy?.unread, [why])
    if (kind === 'file') {
      place.shell.advance(1_000)
      await place.on('restore', replaced)
      place.shell.advance(1_000)
      assert.ok(kindsOf(await place.restore('--carry-stops')).includes('plan_cancelled'))
    }
    // A backup from after the resume has what it needs to know.
    await place.on('restore', '--resume')
    await place.on('backup', place.copy, '--force')
    place.shell.advance(1_000)
    const again = await place.restore()
    assert.deepEqual(again.since_copy?.unread, [])
    // It knows nothing of the next one.
    await place.on('restore', '--resume')
    place.shell.advance(1_000)
    assert.deepEqual((await place.restore()).since_copy?.unread, [
      why.replace(String(replaced), String(again.replaced)),
    ])
  })

  test(`on a ${kind} new terms are told, too, that are dated before the copy, by a clock that has gone back`, async (t) => {
    const place = await placeOf(t, kind)
    await copied(place)
    const send = (partnerPlanId: string, change: { amount?: Usd }) =>
      place.within((store, live) => sendPlan(store, live, { partnerPlanId, partnerUserId: 'u1', ...change }))
    // One that has fired, and one whose new window begins with the old one.
    await send('unfired', {})
    await place.on('backup', place.copy, '--force')
    place.shell.advance(-3 * HOUR_MS)
    for (const plan of ['plan-u1', 'unfired']) await send(plan, { amount: usd('12.50') })
    place.shell.advance(3 * HOUR_MS)
    const { since_copy: told } = await place.restore()
    assert.deepEqual(
      told?.changed_plans.map((plan) => [plan.partner_plan_id, plan.amount_usd, plan.copy_amount_usd]),
      ['plan-u1', 'unfired'].map((plan) => [plan, '12.50', '60.00']),
    )
  })

  test(`on a ${kind} a plan whose terms were changed since is told, and its partner is to be held`, async (t) => {
    const place = await placeOf(t, kind)
    await copied(place)
    const older = readFileSync(place.copy)
    const send = (user: string, change: { amount?: Usd; frequency?: Frequency; status?: PlanStatus }) =>
      place.within((store, live) =>
        sendPlan(store, live, { partnerUserId: user, partnerPlanId: `plan-${user}`, ...change }),
      )
    await send('u1', { amount: usd('12.50'), frequency: 'weekly' })
    await send('u2', { amount: usd('12.50'), status: 'cancelled' })
    await send('u3', { status: 'paused' })
    await send('u4', { amount: usd('7.50') })
    await place.within((store, live) =>
      store.changeWebhook(live, (seen, now) => register(seen, 'https://a.example/', 'new', now)),
    )
    const changed = {
      ...{ partner_slug: 'acme', environment: 'live', partner_plan_id: 'plan-u1' },
      ...{ amount_usd: '12.50', frequency: 'weekly', copy_amount_usd: '60.00', copy_frequency: 'daily' },
    }
    const other = {
      ...{ ...changed, partner_plan_id: 'plan-u4' },
      ...{ amount_usd: '7.50', frequency: 'daily' },
    }
    const told = await place.restore()
    assert.deepEqual([told.since_copy?.changed_plans, told.since_copy?.unread], [[changed, other], []])
    assert.equal(told.since_copy?.lacking.webhooks, 1)
    const next = told.next.map(({ command }) => command.replace(/ --db \S+/, ''))
    const hold = next.indexOf('tranche partner hold acme')
    assert.ok(hold > 0 && hold < next.indexOf('tranche restore --resume'), next.join('\n'))
    place.shell.advance(1_000)
    assert.deepEqual((await place.restore('--carry-stops')).since_copy?.changed_plans, [changed, other])
    // As the step says: held, it goes on, and the partner sends the plan again.
    await place.on('partner', 'hold', 'acme')
    await place.on('restore', '--resume')
    await send('u1', { amount: usd('12.50'), frequency: 'weekly' })
    await send('u4', { amount: usd('7.50') })
    await place.on('partner', 'release', 'acme')
    // An older copy, and then the newer one: what only the older one does not know is no change.
    await place.on('backup', place.copy, '--force')
    const newer = readFileSync(place.copy)
    writeFileSync(place.copy, older)
    place.shell.advance(1_000)
    await place.restore()
    writeFileSync(place.copy, newer)
    place.shell.advance(1_000)
    const words = await place.on('restore', place.copy, '--force')
    assert.doesNotMatch(words, /Plans changed/)
  })

  test(`on a ${kind} what was erased is erased again from whatever backup, until it is given anew`, async (t) => {
    const place = await placeOf(t, kind)
    await copied(place)
    await place.within((store, live) => store.eraseUser(live, 'u6', AUDIT))
    if (kind === 'file') {
      const notes = `${place.db}.erasures`
      assert.equal(statSync(notes).mode & 0o777, 0o600)
      assert.match(readFileSync(notes, 'utf8'), /^([0-9a-f]{64} \S+Z\n){2}$/)
      // A machine that is set up anew has the copy and the notes.
      rmSync(place.db)
      writeFileSync(notes, `${readFileSync(notes, 'utf8')}0123 cut o`)
    }
    assert.equal((await place.restore()).erased_again, 1)
    const email = () => place.within(async (store, live) => (await store.findUser(live, 'u6'))?.email)
    assert.equal(await email(), null)
    await place.on('restore', '--resume')
    place.shell.advance(HOUR_MS)
    await place.within((store, live) => linkWithMail(store, live, 'u6', 'new@example.org'))
    rmSync(place.copy)
    await place.on('backup', place.copy)
    assert.equal((await place.restore()).erased_again, 0)
    assert.equal(await email(), 'new@example.org')
  })

  test(`on a ${kind} an erasure that was refused is not done by a later restore`, async (t) => {
    const place = await placeOf(t, kind)
    await copied(place)
    const moved = join(dirname(place.shell.file), 'moved.db')
    await place.on('copy', '--to', moved, '--seal')
    const { code, err } = await place.shell.tranche([
      '--db',
      place.db,
      'user',
      'erase',
      'acme',
      'u6',
      '--env',
      'live',
      '--yes',
      '--json',
    ])
    assert.deepEqual([code, errorOf(err).code], [5, 'database_sealed'])
    assert.equal((await place.restore()).erased_again, 0)
    const found = await place.within((store, live) => store.findUser(live, 'u6'))
    assert.equal(found?.email, 'ann@example.org')
  })

  test(`on a ${kind} a provider that was given after the erasure stays, though no e-mail was`, async (t) => {
    const place = await placeOf(t, kind)
    await copied(place)
    await place.within((store, live) => store.eraseUser(live, 'u6', AUDIT))
    place.shell.advance(HOUR_MS)
    const terms = { partnerUserId: 'u6', consentAccepted: true, consentVersion: 'v1', consentTimestamp: T0 }
    await place.within((store, live) =>
      store.changeUser(live, 'u6', (seen, now) => linkUser(seen, { ...terms, authProvider: 'apple' }, now)),
    )
    rmSync(place.copy)
    await place.on('backup', place.copy)
    assert.equal((await place.restore()).erased_again, 0)
    const { authProvider } = await place.within(async (store, live) => {
      const user = await store.findUser(live, 'u6')
      assert.ok(user)
      return user
    })
    assert.equal(authProvider, 'apple')
  })
}

const RELEASE = join(import.meta.dirname, '../../fixtures/releases/0.1.0')

for (const kind of ['file', 'server'] as const) {
  test(`on a ${kind} stops are carried over into a backup that an earlier release has made`, async (t) => {
    const place = await placeOf(t, kind)
    const { file } = place.shell
    lay(RELEASE, place.shell)
    copyFileSync(file, place.copy)
    await succeed(place.shell, 'migrate')
    if (kind === 'server') await succeed(place.shell, 'copy', '--to', place.db)
    const activeOf = () =>
      place.within(async (store) =>
        (await allPlans(store)).filter(
          ({ tenant, status }) =>
            tenant.partnerSlug === 'acme' && tenant.environment === 'live' && status === 'active',
        ),
      )
    const [plan, ...others] = await activeOf()
    assert.ok(plan && others.length > 0)
    const { partnerUserId, partnerPlanId } = plan
    await place.within(async (store, live) => {
      await sendPlan(store, live, { partnerUserId, partnerPlanId, status: 'cancelled' })
      await STOPS.partner_held?.(store, live)
    })
    if (kind === 'server') {
      const argv = ['--db', place.db, 'restore', place.copy, '--force', '--json']
      const { code, message } = errorOf((await place.shell.tranche(argv)).err)
      assert.deepEqual([code, message.includes('`tranche --db COPY migrate`')], ['usage', true])
      await succeed(place.shell, '--db', place.copy, 'migrate')
    }
    const told = await place.restore('--carry-stops')
    assert.deepEqual(told.since_copy?.unread, [])
    // What the plan had open is cancelled with it.
    const [held, cancelled, ...more] =
      told.since_copy?.stops.map(({ stop, subject }) => [stop, subject]) ?? []
    assert.deepEqual(
      [held, cancelled],
      [
        ['partner_held', 'acme'],
        ['plan_cancelled', partnerPlanId],
      ],
    )
    assert.ok(more.every(([stop]) => stop === 'execution_cancelled'))
    assert.deepEqual(
      (await activeOf()).map((one) => one.partnerPlanId),
      others.map((one) => one.partnerPlanId),
    )
    assert.equal(await place.within(async (store) => (await store.findPartner('acme'))?.held), true)
    assert.equal(JSON.parse(await place.on('tick', '--price', '60000', '--json')).stands_still, true)
  })

  test(`a copy of a ${kind} that stands still does so too, until it is itself let go on`, async (t) => {
    const place = await placeOf(t, kind)
    await copied(place)
    await place.restore()
    const beside = (name: string) => join(dirname(place.shell.file), name)
    await ourServer()
    const other = kind === 'file' ? emptyDatabase(beside('other')) : beside('other.db')
    await place.on('copy', '--to', other)
    await place.on('backup', beside('backup.db'))
    const restored = await place.within((store) => store.readRestored())
    assert.ok(restored)
    const stillIn = async (db: string) =>
      JSON.parse(await succeed(place.shell, '--db', db, 'tick', '--price', '60000', '--json')).stands_still
    for (const db of [other, beside('backup.db')]) {
      const store = await (await databaseOf(db, place.shell.machine)).open({ create: false })
      assert.deepEqual(await store.readRestored(), restored)
      await store.close()
      assert.equal(await stillIn(db), true)
      await succeed(place.shell, '--db', db, 'restore', '--resume')
      assert.equal(await stillIn(db), undefined)
    }
    assert.equal(await stillIn(place.db), true)
  })
}

test('a database of an earlier release that gives way tells what it has stopped, and is kept as it was', async (t) => {
  const place = await placeOf(t, 'file')
  lay(RELEASE, place.shell)
  copyFileSync(place.db, place.copy)
  const old = new SQLite(place.db)
  old.exec("update partners set status = 'disabled' where partner_slug = 'acme'")
  const migrations = old.prepare('select count(*) from migrations').pluck()
  const before = migrations.get()
  old.close()
  const told = await place.restore('--carry-stops')
  assert.deepEqual([kindsOf(told), told.since_copy?.unread], [['partner_disabled'], []])
  const status = await place.within(async (store) => (await store.findPartner('acme'))?.status)
  assert.equal(status, 'disabled')
  const kept = new SQLite(told.replaced, { readonly: true })
  assert.equal(kept.prepare('select count(*) from migrations').pluck().get(), before)
  kept.close()
  // Neither has been copied into the folder that somebody was in: a copy knows what was erased since.
  assert.deepEqual(
    readdirSync('.').filter((name) => name.includes('before-migration')),
    [],
  )
})

test('lines of the list of erasures that cannot be read are said, and the others are done', async (t) => {
  const place = await placeOf(t, 'file')
  await copied(place)
  await place.within(async (store, live) => {
    await store.eraseUser(live, 'u5', AUDIT)
    await store.eraseUser(live, 'u6', AUDIT)
  })
  rmSync(place.db)
  const list = `${place.db}.erasures`
  // Each user has a line for each key of the tenant.
  const lines = readFileSync(list, 'utf8').trimEnd().split('\n')
  const ofFirst = lines.length / 2
  writeFileSync(list, lines.map((line, at) => `${at < ofFirst ? 'v' : ''}${line}\n`).join(''))
  const { code, out, err } = await runHere(['--db', place.db, 'restore', place.copy], {
    machine: place.shell.machine,
  })
  assert.equal(code, 0)
  assert.match(out, /\n1 user erased again\n/)
  assert.ok(err.startsWith(`warning: ${ofFirst} lines of ${list} cannot be read`), err)
})

test('of a damaged database as much is told as can be read, and it is said', async (t) => {
  const place = await placeOf(t, 'file')
  await copied(place)
  await place.within((store) => STOPS.partner_held?.(store, null as never) as Promise<unknown>)
  const bytes = readFileSync(place.db)
  writeFileSync(
    place.db,
    Buffer.concat([bytes.subarray(0, bytes.length - 3 * 4096), Buffer.alloc(3 * 4096, 7)]),
  )
  const told = await place.restore('--carry-stops')
  assert.ok(told.since_copy)
  rmSync(place.db)
  writeFileSync(place.db, 'no database at all '.repeat(1_000))
  const nothing = await place.restore('--carry-stops')
  assert.ok((nothing.since_copy?.unread.length ?? 0) > 0)
  assert.deepEqual(nothing.since_copy?.stops, [])
})
