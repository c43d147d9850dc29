// Findings for an operator: each rule at its threshold, and on either side of it.

import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import type { ExecutionId } from '../../src/core/execution.ts'
import {
  type DiskVitals,
  DUE_LATE_MS,
  FAILED_ORDERS_MIN,
  FINDINGS,
  type Finding,
  type FindingKind,
  findingsOf,
  type JobResult,
  type PartnerVitals,
  SILENT_MAX_MS,
  type Vitals,
} from '../../src/core/findings.ts'
import type { Frozen } from '../../src/core/frozen.ts'
import { type Price, usd } from '../../src/core/money.ts'
import { PRICE_LIVE_MS } from '../../src/core/price.ts'
import { spellBytes } from '../../src/core/text.ts'
import { DAY_MS, HOUR_MS, type Instant, MINUTE_MS, plus } from '../../src/core/time.ts'

const NOW = Date.UTC(2026, 0, 5) as Instant
const ago = (ms: number): Instant => plus(NOW, -ms)

const well: Vitals = {
  scheduler: { latestAt: [], lastFinishedAt: NOW, waitingSince: NOW },
  dispute: null,
  frozen: null,
  feed: null,
  price: null,
  partners: [],
  unspent: [],
  earlyFills: [],
  results: [],
  also: [],
  backupGone: null,
  fedAt: null,
  disk: null,
}
const frozenSince = (ms: number, more: Partial<Frozen> = {}): Frozen => ({
  kind: 'restored',
  at: ago(ms),
  by: 'ops',
  reason: 'restored from last-night.db',
  movedTo: null,
  replaced: [],
  ...more,
})
const calm: PartnerVitals = {
  tenant: { tenantId: 1, partnerSlug: 'acme', environment: 'live' },
  status: 'active',
  held: false,
  polledAt: NOW,
  confirmedAt: null,
  due: 0,
  oldestDueAt: null,
  stuck: null,
  orders: { filled: 0, failed: 0, newestFailed: false, commonestReason: null },
  plansSince: null,
  webhook: null,
  lateFills: null,
}

const NOW_TEXT = '2026-01-05T00:00:00.000Z'
const KEPT = { folder: '/b', newest: { file: '/b/1.db', host: null } }
const found = (vitals: Partial<Vitals>): Finding[] => findingsOf({ ...well, ...vitals }, NOW)
const kinds = (vitals: Partial<Vitals>): string[] => found(vitals).map(({ kind }) => kind)
const ofPartner = (partner: Partial<PartnerVitals>): string[] =>
  kinds({ partners: [{ ...calm, ...partner }] })

const check: JobResult = {
  job: 'check',
  host: '',
  at: NOW,
  ok: true,
  wellAt: NOW,
  beginsAt: null,
  endsAt: null,
  message: '',
  backups: null,
}
const certificate: JobResult = { ...check, job: 'certificate', host: 'a:443', message: 'DNS:api.example' }

test('a check is told until another one follows, and missed only where one is due', () => {
  assert.deepEqual(kinds({ results: [check] }), [])
  assert.deepEqual(kinds({ results: [{ ...check, at: ago(90 * DAY_MS) }] }), [])
  assert.deepEqual(kinds({ results: [{ ...check, endsAt: NOW }] }), [])
  assert.deepEqual(kinds({ results: [{ ...check, endsAt: ago(1) }] }), ['check_old'])
  assert.deepEqual(kinds({ results: [{ ...check, message: '1 warning (windows_ahead)' }] }), ['check_found'])
  const [failed] = found({ results: [{ ...check, ok: false, message: '1 error (schedule)' }] })
  assert.deepEqual([failed?.kind, failed?.severity], ['check_found', 'page'])
})

test('a backup is missed when it failed, is gone or is old; the next good one ends that', () => {
  const backup: JobResult = { ...check, job: 'backup', endsAt: NOW, message: '/b/1.db', backups: KEPT }
  const seen = (results: JobResult[], more: Partial<Vitals> = {}) => {
    const [one, ...others] = found({ results, ...more })
    assert.deepEqual(others, [])
    return one && [one.message, one.next.join(' ')]
  }
  const next = 'tranche backup /b/'
  assert.equal(seen([backup]), undefined)
  const old = `the newest is of ${NOW_TEXT}, though one is due every day; does its job still run?`
  assert.deepEqual(seen([{ ...backup, endsAt: ago(1) }]), [old, next])
  const failed = { ...backup, ok: false, endsAt: ago(1), message: '/b: no room' }
  const newest = `the last good one was made at ${NOW_TEXT}`
  assert.deepEqual(seen([failed]), [`failed at ${NOW_TEXT} (/b: no room); ${newest}`, next])
  const never = { ...failed, wellAt: null, backups: { folder: '/b', newest: null } }
  const none = 'none has been made yet'
  assert.deepEqual(seen([never]), [`failed at ${NOW_TEXT} (/b: no room); ${none}`, next])
  const gone = '/b/1.db is gone or empty, and was the newest; are there others?'
  assert.deepEqual(seen([backup], { backupGone: '/b/1.db' }), [gone, next])
  // From before results had a folder.
  assert.equal(seen([{ ...failed, backups: null }])?.[1], 'tranche backup FOLDER/')
})

test('a certificate is told when a third and a tenth of its life are left, unless its service has stopped', () => {
  for (const days of [10, 90, 365]) {
    const life = days * DAY_MS
    const endingIn = (ms: number, at = NOW): string | undefined => {
      const ending = { ...certificate, at, beginsAt: plus(NOW, ms - life), endsAt: plus(NOW, ms) }
      return found({ results: [ending] }).map(({ kind, severity }) => `${kind} ${severity}`)[0]
    }
    assert.equal(endingIn(life), undefined, 'a new one')
    assert.equal(endingIn(Math.ceil(life / 3)), undefined)
    assert.equal(endingIn(life / 3 - 1), 'certificate_ends ticket')
    assert.equal(endingIn(life / 10), 'certificate_ends ticket')
    assert.equal(endingIn(life / 10 - 1), 'certificate_ends page')
    assert.equal(endingIn(-DAY_MS, ago(DAY_MS)), 'certificate_ends page')
    assert.equal(endingIn(-DAY_MS, ago(DAY_MS + 1)), undefined)
  }
})

test('of reports that were only counted the execution is named', () => {
  const lateFills = { kept: 0, oldestAt: null, unkept: 3, firstUnkept: 'exec_2' }
  const [late] = found({ partners: [{ ...calm, lateFills }] })
  assert.match(late?.message ?? '', /^3 reported and refused; counted, not kept, such as of exec_2: /)
  assert.deepEqual(late?.next, ['tranche', 'docs', 'levers#a-fill-that-was-refused'])
  // For an unknown execution, only its owner is known.
  const [unknown] = found({ partners: [{ ...calm, lateFills: { ...lateFills, firstUnkept: null } }] })
  const dismiss = ['tranche', 'execution', 'dismiss-late', '--partner', 'acme', '--env', 'live']
  assert.ok(unknown?.message.endsWith(`ask the partner, then \`${dismiss.join(' ')} --reason TEXT\``))
})

test('where all is well nothing is found', () => {
  assert.deepEqual(found({}), [])
  assert.deepEqual(ofPartner({}), [])
})

suite('a partner is silent', () => {
  const waits = (ms: number) => ({ due: 1, oldestDueAt: ago(ms) })
  const late = waits(DUE_LATE_MS + 1)
  const old = { plansSince: ago(9 * SILENT_MAX_MS) }
  const [silent, stuck] = ['partner_silent', 'executions_stuck']
  for (const [name, partner, expected] of [
    ['and nothing waits for it', { polledAt: ago(30 * SILENT_MAX_MS) }, []],
    ['and never polled, and nothing waits', { polledAt: null }, []],
    ['for 15 minutes', { ...waits(DUE_LATE_MS), polledAt: ago(DUE_LATE_MS) }, []],
    ['for longer', { ...waits(DUE_LATE_MS), polledAt: ago(DUE_LATE_MS + 1) }, []],
    ['and what waits has waited for longer', { ...late, polledAt: ago(DUE_LATE_MS + 1) }, [silent, stuck]],
    ['but polled after what waits was there', { ...late, polledAt: ago(1) }, [stuck]],
    ['and never polled', { ...late, polledAt: null }, [silent, stuck]],
    ['for a day with plans', { ...old, polledAt: ago(SILENT_MAX_MS) }, []],
    ['for more than a day with plans', { ...old, polledAt: ago(SILENT_MAX_MS + 1) }, [silent]],
    ['with a plan of today, and never polled', { plansSince: ago(SILENT_MAX_MS), polledAt: null }, []],
    ['for days while it is held', { ...old, polledAt: ago(3 * SILENT_MAX_MS), held: true }, []],
    ['because it is disabled', { ...waits(HOUR_MS), ...old, polledAt: null, status: 'disabled' }, [stuck]],
  ] as [string, Partial<PartnerVitals>, string[]][]) {
    test(name, () => assert.deepEqual(ofPartner(partner), expected))
  }

  test('its words have the poll, what waits and the confirmation', () => {
    const partner = { ...calm, due: 2, oldestDueAt: ago(HOUR_MS), polledAt: ago(HOUR_MS) }
    const [silent] = found({ partners: [partner] })
    assert.equal(
      silent?.message,
      'has not polled for 1 h, since 2026-01-04T23:00:00.000Z; 2 instructions wait, the oldest for 1 h; it has never confirmed',
    )
    assert.deepEqual(silent?.next, ['tranche', 'key', 'list', 'acme'])
    assert.equal(silent?.tenant, calm.tenant)
  })
})

test('a partner fails when more orders failed than were filled, and more than a few', () => {
  const after = (filled: number, failed: number) =>
    ofPartner({ orders: { filled, failed, newestFailed: false, commonestReason: null } })
  assert.deepEqual(after(0, FAILED_ORDERS_MIN - 1), [])
  assert.deepEqual(after(0, FAILED_ORDERS_MIN), ['partner_failing'])
  assert.deepEqual(after(FAILED_ORDERS_MIN, FAILED_ORDERS_MIN), [])
  assert.deepEqual(after(FAILED_ORDERS_MIN - 1, FAILED_ORDERS_MIN), ['partner_failing'])
})

test('a partner with an order a day fails when its newest orders failed, whatever the day', () => {
  const after = (filled: number, failed: number) =>
    found({
      partners: [{ ...calm, orders: { filled, failed, newestFailed: true, commonestReason: 'no funds' } }],
    }).map(({ kind, message }) => [kind, message])
  const said = 'its newest 3 orders failed, and nothing was filled in the last 24 hours; most often: no funds'
  assert.deepEqual(after(0, 1), [['partner_failing', said]])
  assert.deepEqual(after(0, 0), [], 'nothing was ordered in a day')
  assert.deepEqual(after(5, 3), [], 'three in a row may be one user of many')
})

test('a feed is down from the first pass without a price; what that leads to depends on the price', () => {
  const down = { since: ago(MINUTE_MS), reason: 'HTTP 503' }
  const message = (price: Vitals['price'], name = 'median') =>
    found({ feed: { name, askedAt: NOW, down }, price })[0]?.message ?? ''
  const priced = (ms: number) => ({ price: 1n as Price, at: ago(ms), source: 'median' })
  assert.deepEqual(kinds({ feed: { name: 'median', askedAt: NOW, down: null } }), [])
  assert.match(
    message(null),
    /^has given no price for 1 min, since \S+ \(HTTP 503\); there is no price at all, so tranches fire by the clock$/,
  )
  assert.match(message(priced(PRICE_LIVE_MS - 1)), /the newest price is 20 min old$/)
  assert.match(message(priced(PRICE_LIVE_MS)), /20 min old, too old to go by, so tranches fire by the clock$/)
  const next = (name: string) => found({ feed: { name, askedAt: NOW, down } })[0]?.next
  assert.deepEqual(next('median'), ['tranche', 'price', 'fetch', '--price-feed', 'median'])
  // The path of an address is not stored, for it may hold a key: it comes from the settings.
  assert.deepEqual(next('https://prices.example'), ['tranche', 'price', 'fetch'])
})

test('a disk is low below a tenth, or below what a day brings', () => {
  const disk = (more: Partial<DiskVitals>) =>
    kinds({ disk: { folder: '/d', freeBytes: 100, totalBytes: 1_000, dayGrowthBytes: 0, ...more } })
  assert.deepEqual(disk({}), [])
  assert.deepEqual(disk({ freeBytes: 99 }), ['disk_low'])
  assert.deepEqual(disk({ freeBytes: 500, dayGrowthBytes: 500 }), [])
  assert.deepEqual(disk({ freeBytes: 500, dayGrowthBytes: 501 }), ['disk_low'])
  assert.deepEqual([0, 1023, 1024, 2 ** 51].map(spellBytes), ['0 B', '1023 B', '1.0 KiB', '2048.0 TiB'])
})

test('everything at once: in a steady order, each with its severity, a tenant where it has one, and a command', () => {
  const released = usd('5.00')
  const findings = found({
    scheduler: { latestAt: [], lastFinishedAt: null, waitingSince: ago(HOUR_MS) },
    dispute: { clockAt: NOW, witness: { source: 'coinbase', at: ago(HOUR_MS) } },
    feed: { name: 'median', askedAt: NOW, down: { since: NOW, reason: 'HTTP 503' } },
    disk: { folder: '/d', freeBytes: 0, totalBytes: 0, dayGrowthBytes: 1 },
    partners: [
      {
        ...calm,
        polledAt: null,
        due: 1,
        oldestDueAt: ago(HOUR_MS),
        stuck: { count: 2, first: 'exec_1' as ExecutionId },
        orders: { filled: 0, failed: 5, newestFailed: true, commonestReason: 'closed' },
        webhook: { paused: true, failures: 10, lastReason: null, lastDeliveredAt: null },
        lateFills: { kept: 1, oldestAt: NOW, unkept: 2, firstUnkept: 'exec_2' },
      },
      { ...calm, webhook: { paused: false, failures: 5, lastReason: 'HTTP 500', lastDeliveredAt: null } },
    ],
    earlyFills: [
      { tenant: calm.tenant, executionId: 'exec_3' as ExecutionId, executedAt: ago(HOUR_MS), createdAt: NOW },
    ],
    unspent: [{ tenant: calm.tenant, windows: 1, released, worst: { partnerPlanId: 'p', released } }],
    results: [
      { ...check, ok: false, message: '1 error (trade_changed)' },
      { ...check, message: '1 warning (trade_price)', endsAt: ago(1) },
      { ...certificate, beginsAt: ago(26 * DAY_MS), endsAt: plus(NOW, 4 * DAY_MS) },
      { ...check, job: 'backup', ok: false, message: '/var/backups: no room' },
    ],
  })
  // Left out: findings in or beside the database, and database_frozen, which replaces those about passes.
  const looked: FindingKind[] = ['clock_back', 'key_ends', 'file_open', 'file_closed', 'wal_large']
  looked.push('standby_away', 'serve_stopped', 'trade_price', 'windows_ahead', 'database_frozen')
  const others = Object.keys(FINDINGS).filter((kind) => !(looked as string[]).includes(kind))
  assert.deepEqual([...new Set(findings.map(({ kind }) => kind))].sort(), others.sort())
  const urgent = findings.filter(({ severity }) => severity === 'page').length
  assert.ok(findings.slice(0, urgent).every(({ severity }) => severity === 'page'))
  const severities: Record<string, readonly string[]> = FINDINGS
  for (const { kind, severity, next, tenant, subject } of findings) {
    assert.ok(severities[kind]?.includes(severity))
    assert.ok(next.length > 1)
    assert.equal(tenant !== null, subject.startsWith('acme live'), kind)
  }
})

test('a frozen database has one finding, whose command is the guide, and none of passes that it does not run', () => {
  const scheduler = { latestAt: [], lastFinishedAt: null, waitingSince: ago(HOUR_MS) }
  const of = (frozen: Frozen) => found({ scheduler, frozen }).map(({ kind, next }) => [kind, next.join(' ')])
  assert.deepEqual(of(frozenSince(HOUR_MS)), [['database_frozen', 'tranche docs disaster']])
  const moved = frozenSince(HOUR_MS, { kind: 'moved', movedTo: 'postgres://db.example/tranche' })
  assert.deepEqual(of(moved), [['database_frozen', 'tranche docs operations#moving-to-another-database']])
  assert.match(found({ frozen: moved })[0]?.message ?? '', /^moved to postgres:\/\/db\.example\/tranche on /)
  const [restored] = found({ frozen: frozenSince(HOUR_MS) })
  assert.match(
    restored?.message ?? '',
    /^frozen since \S+ by ops: restored from last-night\.db \(1 h\); nothing fires/,
  )
})

test('a price that came from a feed is old after a day, while plans wait for passes and the feed is not known to be down', () => {
  const price = { price: usd('60000') as never, at: ago(36 * HOUR_MS), source: 'coinbase' }
  const withPlans = [{ ...calm, plansSince: ago(HOUR_MS) }]
  const kinds = (seen: object) =>
    found({ price, fedAt: price.at, partners: withPlans, ...seen } as never)
      .map(({ kind }) => kind)
      .filter((kind) => kind !== 'partner_silent')
  assert.deepEqual(kinds({}), ['feed_down'])
  assert.deepEqual(kinds({ fedAt: ago(24 * HOUR_MS) }), [])
  assert.deepEqual(kinds({ fedAt: null }), [])
  // The finding expires: an operator may want to continue without prices.
  assert.deepEqual(kinds({ fedAt: ago(8 * DAY_MS) }), ['feed_down'])
  assert.deepEqual(kinds({ fedAt: plus(ago(8 * DAY_MS), -1) }), [])
  // A manual or imported price hides nothing; with a live one, plans fire all the same.
  assert.deepEqual(kinds({ price: { ...price, at: NOW, source: 'import' } }), ['feed_down'])
  const said = (at: Instant) => found({ fedAt: price.at, price: { ...price, at } } as never)[0]?.message
  const byTheClock = /^no feed has given a price for 1 d 12 h, so tranches fire by the clock; /
  assert.match(said(price.at) ?? '', byTheClock)
  assert.match(said(NOW) ?? '', /^no feed has given a price for 1 d 12 h; do the ticks still have /)
  // Plans of a held partner, which nothing may fire, wait for no price.
  assert.deepEqual(kinds({ scheduler: { ...well.scheduler, waitingSince: null } }), [])
  const down = { name: 'coinbase', askedAt: NOW, down: { since: ago(HOUR_MS), reason: 'HTTP 503' } }
  assert.deepEqual(kinds({ feed: down }), ['feed_down'])
  // The passes of a frozen database query no feed, and fire nothing by the clock.
  const frozen = frozenSince(HOUR_MS)
  assert.deepEqual(kinds({ frozen }), ['database_frozen'])
  assert.match(found({ frozen, price, feed: down })[1]?.message ?? '', /^has given no .* too old to go by$/)
  const words = (waitingSince: Instant | null) =>
    found({ price, feed: down, scheduler: { ...well.scheduler, waitingSince } } as never)[0]?.message ?? ''
  assert.match(words(NOW), /too old to go by, so tranches fire by the clock$/)
  assert.match(words(null), /too old to go by$/)
})
