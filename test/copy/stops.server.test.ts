// Stops recorded in a replaced database, and how a restore merges them into the new one: in a file and on a server.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { copyFileSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import SQLite from 'better-sqlite3'
import { databaseOf } from '../../src/cli/context.ts'
import type { Issued } from '../../src/core/invoice.ts'
import { revoke } from '../../src/core/key.ts'
import { usd } from '../../src/core/money.ts'
import { periodOf } from '../../src/core/month.ts'
import { setHeld, setPartnerStatus, type Tenant } from '../../src/core/partner.ts'
import { HOUR_MS, type Instant, plus } from '../../src/core/time.ts'
import { linkUser, type UserRequest } from '../../src/core/user.ts'
import type { Store } from '../../src/store/store.ts'
import { lay } from '../releases/release.ts'
import {
  AUDIT,
  allPlans,
  each,
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
import { errorOf, openShell, runHere, succeed, T0 } from '../support/service.ts'

type Place = Awaited<ReturnType<typeof placeOf>>
type Told = {
  erased_again: number
  since_copy: {
    stops: { stop: string; subject: string }[]
    issued: { invoice_number: string; kept: boolean }[]
    unread: string[]
  } | null
  replaced: string
  next: { command: string }[]
}

async function placeOf(t: TestContext, kind: 'file' | 'server') {
  const shell = openShell(t)
  if (kind === 'server') await ourServer()
  const db = kind === 'file' ? shell.file : emptyDatabase(join(dirname(shell.file), 'stops'))
  const copy = join(dirname(shell.file), 'copy.db')
  const on = (...argv: string[]) => succeed(shell, '--db', db, ...argv)
  return {
    shell,
    db,
    copy,
    on,
    frozen: async () => (await databaseOf(db, shell.machine)).frozen(),
    restore: async (): Promise<Told> => JSON.parse(await on('restore', copy, '--force', '--json')),
    async within<T>(work: (store: Store, live: Tenant) => Promise<T>): Promise<T> {
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

const linkWith = (store: Store, tenant: Tenant, partnerUserId: string, more: Partial<UserRequest>) => {
  const terms = { partnerUserId, consentAccepted: true, consentVersion: 'v1', consentTimestamp: T0, ...more }
  return store.changeUser(tenant, partnerUserId, (seen, now) => linkUser(seen, terms, now))
}

const USERS = ['u1', 'u2', 'u3', 'u4', 'u6']

/** Every kind of record that can be stopped, each of a user of its own, in a copy. */
async function copied(place: Place): Promise<void> {
  await place.within(async (store, live) => {
    await store.addKey({ ...keyFor(live), keyId: 'key_leaked' }, AUDIT)
    await store.addKey({ ...keyFor(live), keyId: 'key_ending' }, AUDIT)
    for (const user of USERS) {
      await linkWith(store, live, user, { email: 'ann@example.org' })
      await sendPlan(store, live, { partnerUserId: user, partnerPlanId: `plan-${user}` })
    }
    await tick({ store, machine: place.shell.machine }, '60000')
    await poll(store, live)
  })
  await place.on('backup', place.copy)
  place.shell.advance(HOUR_MS)
}

type Stopping = (store: Store, live: Tenant) => Promise<unknown>

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
  user_disabled: (store, live) => setUser(store, live, 'u4', 'disabled'),
  user_erased: (store, live) => store.eraseUser(live, 'u6', AUDIT),
}

/** The e-mail of the user who is erased. */
const mailOf = (place: Place) =>
  place.within(async (store, live) => (await store.findUser(live, 'u6'))?.email)

/** Which stops hold, as an operator sees them. */
const stateOf = (place: Place) =>
  place.within(async (store, live) => {
    const plans = (await allPlans(store)).filter(({ tenant }) => tenant.partnerSlug === 'acme')
    const statusOf = (id: string) => plans.find(({ partnerPlanId }) => partnerPlanId === id)?.status
    const key = (await store.listKeys('acme')).find(({ keyId }) => keyId === 'key_leaked')
    assert.deepEqual(await store.findFaults(), [])
    return {
      partner_disabled: (await store.findPartner('bolt'))?.status === 'disabled',
      partner_held: (await store.findPartner('acme'))?.held === true,
      key_ended: key?.revokedAt !== null,
      plan_cancelled: statusOf('plan-u1') === 'cancelled',
      plan_paused: statusOf('plan-u2') === 'paused',
      user_disabled: (await store.findUser(live, 'u4'))?.status === 'disabled',
      user_erased: (await store.findUser(live, 'u6'))?.email === null,
    }
  })

const only = (...kinds: string[]) =>
  Object.fromEntries(Object.keys(STOPS).map((kind) => [kind, kinds.includes(kind)]))

/** The kinds that a restore lists. An erasure is only counted: nobody may read who was erased. */
const LISTED = Object.keys(STOPS).filter((kind) => kind !== 'user_erased')

const kindsOf = (told: Told): string[] => [...new Set(told.since_copy?.stops.map(({ stop }) => stop))].sort()

test('on a server the printed list of what a partner bought since the copy is one that reconcile reads', async (t) => {
  const place = await placeOf(t, 'server')
  await copied(place)
  await place.within(async (store, live) => {
    const all = { slug: 'acme', environment: 'live', status: null, stuck: false } as const
    const [first] = await store.listExecutions(all, { limit: 1, after: null })
    assert.ok(first)
    await report(store, live, first.executionId, filled(first.amount, 'order-1'))
  })
  const { next } = await place.restore()
  const command = next.find(({ command }) => command.includes('--csv'))?.command ?? ''
  const cwd = dirname(place.copy)
  const env = { ...process.env, TRANCHE_DB: place.db }
  execFileSync('sh', ['-c', command.replace('SLUG', 'acme')], { cwd, env })
  const argv = ['billing', 'reconcile', '--against', join(cwd, 'ORDERS.csv'), '--partner', 'acme']
  const against = await place.shell.tranche(['--db', place.db, '--json', ...argv])
  assert.equal(against.err, '')
  assert.match(against.out, /order-1/)
})

for (const kind of ['file', 'server'] as const) {
  test(`on a ${kind} each stop since the copy is told and carried over by itself, and nothing is started`, async (t) => {
    const place = await placeOf(t, kind)
    await copied(place)
    assert.deepEqual(kindsOf(await place.restore()), [])
    const made: string[] = []
    for (const [stop, make] of Object.entries(STOPS)) {
      await place.on('resume', '--yes')
      await place.within(make)
      made.push(stop)
      const listed = LISTED.filter((kind) => made.includes(kind)).sort()
      const told = await place.restore()
      assert.deepEqual([kindsOf(told), told.erased_again], [listed, made.includes('user_erased') ? 1 : 0])
      assert.deepEqual(await stateOf(place), only(...made))
      const audits: { action: string; detail: { stop?: string } }[] = JSON.parse(
        await place.on('audit', '--json'),
      )
      const said = audits.flatMap(({ action, detail }) =>
        action === 'database.carry_stop' ? [detail.stop] : [],
      )
      // The plans of a disabled user are paused.
      assert.deepEqual([[...new Set(said)].sort(), said.length], [listed, told.since_copy?.stops.length])
      assert.deepEqual(told.since_copy?.unread, [])
      place.shell.advance(1_000)
    }
    // The audit log lists the restore, and then the merged stops.
    const entries = JSON.parse(await place.on('audit', '--json')) as { at: string; action: string }[]
    const last = entries.slice(entries.findLastIndex(({ action }) => action === 'database.restore') + 1)
    assert.deepEqual(new Set(each(last, 'action')), new Set(['database.carry_stop', 'user.erase']))
    const times = entries.map(({ at }) => at)
    assert.deepEqual(times, times.toSorted())
    assert.equal((await place.frozen())?.kind, 'restored')
    await place.on('resume', '--yes')
    await place.on('tick', '--price', '60000')
    assert.deepEqual(await stateOf(place), only(...made))
  })

  test(`on a ${kind} what one that gave way does not know, the ones that it had replaced do`, async (t) => {
    const place = await placeOf(t, kind)
    const older = join(dirname(place.copy), 'older.db')
    await place.within(async () => {})
    await place.on('backup', older)
    await copied(place)
    for (const make of Object.values(STOPS)) await place.within(make)
    // The older copy has no such plans, and so none of their stops.
    await place.on('restore', older, '--force')
    place.shell.advance(1_000)
    const told = await place.restore()
    assert.deepEqual([kindsOf(told), told.erased_again], [LISTED.toSorted(), 1])
    assert.deepEqual(await stateOf(place), only(...Object.keys(STOPS)))
    const { replaced } = (await place.frozen()) ?? {}
    assert.equal(replaced?.length, 2)
    assert.equal(replaced?.[0], told.replaced)
  })

  test(`on a ${kind} an erasure takes what was given before it, and that alone, wherever the clock went`, async (t) => {
    const place = await placeOf(t, kind)
    const later = join(dirname(place.copy), 'later.db')
    const give = (email: string) => place.within((store, live) => linkWith(store, live, 'u6', { email }))
    const erase = () => place.within((store, live) => store.eraseUser(live, 'u6', AUDIT))
    await copied(place)
    // From here on, every write is dated before the records of the copy.
    place.shell.advance(-5 * HOUR_MS)
    await give('second@example.org')
    await erase()
    await give('third@example.org')
    await place.on('backup', later)
    await place.on('restore', later, '--force')
    assert.equal(await mailOf(place), 'third@example.org')
    place.shell.advance(-HOUR_MS)
    await erase()
    for (const copy of [place.copy, later]) {
      place.shell.advance(1_000)
      // Known from the stored notes alone, as where the replaced database is lost.
      if (kind === 'file') rmSync(place.db)
      await place.on('restore', copy, '--force')
      assert.equal(await mailOf(place), null, copy)
    }
    await give('fourth@example.org')
    await place.on('backup', place.copy, '--force')
    place.shell.advance(1_000)
    assert.equal((await place.restore()).erased_again, 0)
    assert.equal(await mailOf(place), 'fourth@example.org')
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
    assert.deepEqual(await endOf('key_ending'), [end, null])
    assert.deepEqual(await endOf('key_leaked'), [null, null])
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
    assert.deepEqual(told.since_copy?.unread, [])
    assert.deepEqual(await place.within(ofAll), [first, second, credit])
    // A second restore of the same backup uses the database replaced before, and the next number follows the last.
    place.shell.advance(1_000)
    await place.restore()
    assert.deepEqual(await place.within(ofAll), [first, second, credit])
    assert.match(await place.on('audit', '--json'), /"database\.carry_invoice".*"R-003"/)
    await place.on('resume', '--yes')
    assert.deepEqual(await issue('bolt', '55.00'), second)
    assert.deepEqual(await place.within((store) => store.findFaults()), [])
  })

  test(`on a ${kind} what was erased is erased again from whatever backup, until it is given anew`, async (t) => {
    const place = await placeOf(t, kind)
    await copied(place)
    await place.within((store, live) => store.eraseUser(live, 'u6', AUDIT))
    if (kind === 'file') {
      const notes = `${place.db}.erasures`
      assert.equal(statSync(notes).mode & 0o777, 0o600)
      assert.match(readFileSync(notes, 'utf8'), /^([0-9a-f]{64} \S+Z\n){2}$/)
      // A new machine has the copy and the notes.
      rmSync(place.db)
      writeFileSync(notes, `${readFileSync(notes, 'utf8')}0123 cut o`)
    }
    assert.equal((await place.restore()).erased_again, 1)
    assert.equal(await mailOf(place), null)
    await place.on('resume', '--yes')
    place.shell.advance(HOUR_MS)
    // A provider alone is something that was given anew, too.
    for (const given of [{ authProvider: 'apple' }, { email: 'new@example.org' }] as const) {
      await place.within((store, live) => linkWith(store, live, 'u6', given))
      rmSync(place.copy)
      await place.on('backup', place.copy)
      assert.equal((await place.restore()).erased_again, 0)
      const user = await place.within((store, live) => store.findUser(live, 'u6'))
      assert.deepEqual({ ...user, ...given }, user)
      place.shell.advance(1_000)
      await place.on('resume', '--yes')
    }
  })

  test(`on a ${kind} an erasure that was refused is not done by a later restore`, async (t) => {
    const place = await placeOf(t, kind)
    await copied(place)
    const moved = join(dirname(place.shell.file), 'moved.db')
    await place.on('copy', '--to', moved, '--seal')
    const argv = ['user', 'erase', 'acme', 'u6', '--env', 'live', '--yes', '--json']
    const { code, err } = await place.shell.tranche(['--db', place.db, ...argv])
    assert.deepEqual([code, errorOf(err).code], [5, 'database_moved'])
    assert.equal((await place.restore()).erased_again, 0)
    assert.equal(await mailOf(place), 'ann@example.org')
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
    const told = await place.restore()
    assert.deepEqual(told.since_copy?.unread, [])
    assert.deepEqual(each(told.since_copy?.stops, 'stop', 'subject'), [
      ['partner_held', 'acme'],
      ['plan_cancelled', partnerPlanId],
    ])
    assert.deepEqual(each(await activeOf(), 'partnerPlanId'), each(others, 'partnerPlanId'))
    assert.equal(await place.within(async (store) => (await store.findPartner('acme'))?.held), true)
    assert.equal((await place.frozen())?.kind, 'restored')
  })

  test(`on a ${kind} a restore from a backup that was frozen itself carries all the same`, async (t) => {
    const place = await placeOf(t, kind)
    await place.within(async () => {})
    await place.on('freeze', '--reason', 'the venue is wrong')
    await place.on('backup', place.copy)
    await place.on('resume', '--yes')
    await place.within((store, live) => STOPS.partner_held?.(store, live) as Promise<unknown>)
    assert.deepEqual(kindsOf(await place.restore()), ['partner_held'])
    assert.equal((await place.frozen())?.kind, 'restored')
    assert.equal(await place.within(async (store) => (await store.findPartner('acme'))?.held), true)
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
  const told = await place.restore()
  assert.deepEqual([kindsOf(told), told.since_copy?.unread], [['partner_disabled'], []])
  assert.equal(await place.within(async (store) => (await store.findPartner('acme'))?.status), 'disabled')
  const kept = new SQLite(told.replaced, { readonly: true })
  assert.equal(kept.prepare('select count(*) from migrations').pluck().get(), before)
  kept.close()
  // Neither has been copied into the current folder: a copy knows the erasures since.
  const strays = readdirSync('.').filter((name) => name.includes('before-migration'))
  assert.deepEqual(strays, [])
})

test('lines of the list of erasures that cannot be read are said, and the others are done', async (t) => {
  const place = await placeOf(t, 'file')
  await copied(place)
  await place.within(async (store, live) => {
    await store.eraseUser(live, 'u4', AUDIT)
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
  assert.ok((await place.restore()).since_copy)
  rmSync(place.db)
  writeFileSync(place.db, 'no database at all '.repeat(1_000))
  const nothing = await place.restore()
  assert.ok((nothing.since_copy?.unread.length ?? 0) > 0)
  assert.deepEqual(nothing.since_copy?.stops, [])
})
