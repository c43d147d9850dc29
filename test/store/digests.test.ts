// The digests of rows: what they are, which never changes because databases hold them; that they see any flipped bit;
// and that rows keep those that they were given before digests were mixed.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { DAY_MS } from '../../src/core/time.ts'
import { DIGESTED, type DigestedRow, isIntact, rowDigest, textDigest } from '../../src/store/digests.ts'
import { openFile } from '../../src/store/sqlite/file/connection.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import type { Digested } from '../../src/store/tables.ts'
import { digestText } from '../support/database.ts'
import { allExecutions, link, openWorld, sendPlan, tick } from './world.ts'

/** The tables whose digests are mixed, each with a row and its digest. */
const ROWS = {
  plans: [
    {
      tenant_id: 1,
      user_id: 7,
      partner_plan_id: 'plan-é',
      amount_usd: 6_100_000_000n,
      frequency: 'daily',
      smart_timing_enabled: 1,
      start_date: 1_767_571_200_000,
      created_at: 1_767_571_200_123,
    },
    -57_926_745_360_801,
  ],
  windows: [
    {
      plan_id: 3,
      window_start: 1_767_571_200_000,
      window_end: 1_767_657_600_000,
      budget: 6_100_000_000n,
    },
    -60_429_698_592_535,
  ],
  schedules: [
    {
      plan_id: 3,
      window_id: 4,
      next_run_at: 1_767_571_260_000,
      limit_price: null,
      clock_at: 1_767_574_800_000,
      window_start: 1_767_571_200_000,
      window_end: 1_767_657_600_000,
      budget: 6_100_000_000n,
      tranche_index: 2,
      slots: 6,
      units_per_slot: 1,
      units_fired: 0,
      slot: -1,
      reference_price: 9_300_000_000_000n,
      half_width: 0.0123,
      extras_left: 2,
      next_extra_at: 0,
    },
    -22_709_422_476_588,
  ],
  executions: [
    {
      execution_id: 'exec_01KE5X7Q3W0000000000000000',
      tenant_id: 1,
      plan_id: 3,
      window_id: 4,
      window_start: 1_767_571_200_000,
      tranche_index: 1,
      amount_usd: 1_000_000_000n,
      trigger_kind: 'limit',
      slot: 0,
      units: 1,
      price: 9_300_000_000_000n,
      reference_price: null,
      reservation_price: null,
      created_at: 1_767_571_260_000,
    },
    -9_829_179_737_337,
  ],
  reported_until: [{ at: 1_767_571_200_000 }, -18_939_636_046_606],
} satisfies Partial<Record<Digested, [row: DigestedRow, digest: number]>>
const EACH = Object.entries(ROWS) as [Digested, [DigestedRow, number]][]

/** As a database gives it back. */
const stored = (row: DigestedRow): DigestedRow =>
  Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      name,
      typeof value === 'number' && Number.isInteger(value) ? BigInt(value) : value,
    ]),
  )

/** Every value that a flipped bit makes of one. */
function* flipped(value: unknown): Generator<unknown> {
  if (typeof value === 'bigint')
    for (let bit = 0n; bit < 64n; bit++) yield BigInt.asIntN(64, value ^ (1n << bit))
  if (typeof value === 'string')
    for (let at = 0; at < value.length; at++)
      for (let bit = 0; bit < 16; bit++)
        yield value.slice(0, at) +
          String.fromCharCode(value.charCodeAt(at) ^ (1 << bit)) +
          value.slice(at + 1)
}

test('a mixed digest is what it always was, for numbers and for the integers of a database alike', () => {
  const mixed = Object.keys(DIGESTED).filter((name) => DIGESTED[name as Digested].isMixed)
  assert.deepEqual(mixed.sort(), Object.keys(ROWS).sort())
  for (const [name, [row, digest]] of EACH) {
    assert.deepEqual([rowDigest(name, row), rowDigest(name, stored(row))], [digest, digest], name)
    assert.ok(isIntact(name, { ...stored(row), digest: BigInt(digest) }), name)
  }
})

test('no flipped bit leaves a mixed digest as it was', () => {
  let seen = 0
  for (const [name, [row, digest]] of EACH) {
    const sound = stored(row)
    for (const column of DIGESTED[name].columns)
      for (const value of flipped(sound[column])) {
        seen += 1
        assert.notEqual(rowDigest(name, { ...sound, [column]: value }), digest, `${name}.${column} ${value}`)
      }
    for (const damaged of flipped(BigInt(digest))) assert.ok(!isIntact(name, { ...sound, digest: damaged }))
  }
  assert.ok(seen > 3_000)
})

test('values that changed places, went missing or came back as something else have another digest', () => {
  const [[schedule], [plan], [window]] = [ROWS.schedules, ROWS.plans, ROWS.windows]
  const others: [Digested, DigestedRow, DigestedRow][] = [
    ['schedules', schedule, { limit_price: schedule.clock_at, clock_at: null }],
    ['schedules', schedule, { slots: null }],
    ['schedules', schedule, { next_extra_at: null }],
    ['schedules', schedule, { half_width: 0.0124 }],
    ['schedules', schedule, { half_width: 2 ** 24 }],
    ['schedules', schedule, { half_width: 2 ** 900 }],
    ['schedules', schedule, { half_width: Number.POSITIVE_INFINITY }],
    ['schedules', schedule, { half_width: 0 }],
    ['schedules', schedule, { units_fired: 1, slots: 5 }],
    ['plans', plan, { partner_plan_id: 'plan-', frequency: 'édaily' }],
    ['plans', plan, { partner_plan_id: Buffer.from('plan-é') }],
    ['windows', window, { plan_id: 3.5 }],
    ['windows', window, { budget: 2n ** 62n }],
    ['windows', window, { budget: 2n ** 62n + 1n }],
  ]
  const digests = others.map(([name, row, change]) => rowDigest(name, { ...row, ...change }))
  const all = [...digests, ...EACH.map(([name, [row]]) => rowDigest(name, row))]
  assert.equal(new Set(all).size, others.length + EACH.length)
})

test('a column that comes last, and that no row has yet, leaves a mixed digest as it was', () => {
  const [row] = ROWS.windows
  const columns = DIGESTED.windows.columns as string[]
  const before = rowDigest('windows', row)
  columns.push('later')
  try {
    assert.equal(rowDigest('windows', { ...row, later: null }), before)
    assert.notEqual(rowDigest('windows', { ...row, later: 0 }), before)
  } finally {
    columns.pop()
  }
})

test('rows keep a hashed digest until they are written again, and one that has changed gets no other', async (t) => {
  const world = await openWorld(t, (_, clock, place) =>
    openStore(join(place, 'tranche.db'), { clock, create: true }),
  )
  const { store, acme, place, advance } = world
  await link(store, acme)
  for (const partnerPlanId of ['p1', 'p2']) await sendPlan(store, acme, { partnerPlanId })
  await tick(world, '60000')
  const db = openFile(join(place, 'tranche.db'))
  t.after(() => db.close())
  db.function('row_digest', (text: unknown) => BigInt(textDigest(String(text))))
  for (const [name] of EACH) db.exec(`update ${name} set digest = row_digest(${digestText(name)})`)
  assert.deepEqual(await store.findFaults(), [])
  db.exec('update schedules set budget = budget + 1 where plan_id = 1')
  const digests = () => db.prepare<[], bigint>('select digest from schedules order by plan_id').pluck().all()
  const before = digests()
  advance(DAY_MS)
  const { failed } = await tick(world, '60000')
  assert.equal(failed.length, 1)
  const [damaged, sound] = digests()
  assert.deepEqual([damaged, (sound ?? 0n) < 0n], [before[0], true])
  const changed = (await store.findFaults()).filter(({ kind }) => kind === 'row_changed')
  assert.deepEqual(
    changed.map(({ subject }) => subject),
    ['schedules row 1'],
  )
  const latest = (await allExecutions(store)).filter(({ createdAt }) => createdAt === world.now())
  assert.deepEqual(
    latest.map(({ partnerPlanId }) => partnerPlanId),
    ['p2'],
  )
})
