// A partner's reads of its plans, executions and trades: their contents, page by page, and without any effect.

import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { adjust } from '../../src/core/corrections/adjustment.ts'
import { LEASE_MS } from '../../src/core/execution.ts'
import { btc, usd } from '../../src/core/money.ts'
import { DAY_MS, formatInstant, HOUR_MS } from '../../src/core/time.ts'
import { wrap } from '../../src/http/fields.ts'
import { each } from '../store/world.ts'
import { AUDIT, fill, type Service, startService, USER } from '../support/service.ts'
import {
  assertSound,
  confirmPath,
  EXECUTIONS,
  executionsOf,
  type Json,
  link,
  PLANS,
  PRICE,
  plan,
  planPath,
  poll,
  sendFirst,
  setUser,
  succeed,
  TRADES,
  tenantOf,
  USERS,
  userPath,
} from './steps.ts'

const SHARES = '/partner/v1/billing/monthly/users'

const withQuery = (path: string, query: string): string => `${path}${path.includes('?') ? '&' : '?'}${query}`

async function refuseCursor(service: Service, path: string, cursor: unknown): Promise<void> {
  const { status, body } = await service.call('GET', withQuery(path, `cursor=${cursor}`))
  const [refused] = (body as Json).detail as Json[]
  assert.deepEqual([status, refused?.loc], [422, ['query', 'cursor']], `${path} ${cursor}`)
}

/** All rows of a list, page by page. */
async function walk(service: Service, path: string, rows: string, limit: number): Promise<Json[]> {
  const all: Json[] = []
  for (let cursor = ''; ; ) {
    const page = await succeed(service, 'GET', withQuery(path, `limit=${limit}${cursor}`))
    assert.ok(page[rows].length <= limit)
    all.push(...page[rows])
    if (page.next_cursor === null) return all
    assert.equal(page[rows].length, limit, 'only the last page is shorter')
    cursor = `&cursor=${page.next_cursor}`
  }
}

const nextOf = async (service: Service, id: string): Promise<[unknown, unknown]> => {
  const { next_step, next_step_at } = await succeed(service, 'GET', planPath(id))
  return [next_step, next_step_at]
}

suite('a plan', () => {
  test('shows its window, what is spent and left, and what comes next, through its life', async (t) => {
    const service = await startService(t)
    const at = (ms: number) => formatInstant((service.now() + ms) as typeof now)
    const now = service.now()
    const [start, end] = [at(0), at(DAY_MS)]
    await link(service, 'u')
    const made = await plan(service, 'u', 'p')
    const window = { window_start: start, window_end: end, budget_usd: '60.00', excess_usd: '0.00' }
    assert.deepEqual(await succeed(service, 'GET', planPath('p')), {
      ...made,
      window: { ...window, reserved_usd: '0.00', spent_usd: '0.00', left_usd: '60.00' },
      next_step: 'buy',
      next_step_at: start,
    })

    await service.tick(PRICE)
    const fired = await succeed(service, 'GET', planPath('p'))
    assert.deepEqual(fired.window, { ...window, reserved_usd: '10.00', spent_usd: '0.00', left_usd: '50.00' })
    assert.deepEqual([fired.next_step, fired.next_step_at], ['confirm', null])
    const [execution] = (await poll(service)).get('p') ?? []
    assert.deepEqual(await nextOf(service, 'p'), ['confirm', null])
    const partly = fill('o', '9.00', 'partial')
    await succeed(service, 'POST', confirmPath(String(execution?.execution_id)), partly)
    const bought = await succeed(service, 'GET', planPath('p'))
    assert.deepEqual(bought.window, { ...window, reserved_usd: '0.00', spent_usd: '9.00', left_usd: '51.00' })
    assert.equal(bought.next_step, 'buy')
    assert.ok(bought.next_step_at > start && bought.next_step_at < end, bought.next_step_at)

    // The scheduler does its announced next step by then.
    service.setClock(Date.parse(bought.next_step_at) as typeof now)
    await service.tick('70000')
    assert.deepEqual(await nextOf(service, 'p'), ['confirm', null])
    await plan(service, 'u', 'p', { status: 'cancelled' })
    const over = await succeed(service, 'GET', planPath('p'))
    assert.deepEqual([over.window, over.next_step, over.next_step_at], [null, 'none', null])
    await assertSound(service)
  })
})

suite('a user', () => {
  test('shows every consent it ever gave, oldest first, and otherwise what its list shows', async (t) => {
    const service = await startService(t)
    const consent = (version: string, timestamp: string) =>
      succeed(service, 'POST', USERS, {
        ...{ ...USER, partner_user_id: 'u', email: 'u@example.org', auth_provider: 'apple' },
        ...{ consent_version: version, consent_timestamp: timestamp },
      })
    const given = ['2026-01-03', '2026-01-01'].map((day) => `${day}T00:00:00.000Z`)
    for (const [n, timestamp] of given.entries()) await consent(`v${n + 1}`, timestamp)
    const { consents, ...user } = await succeed(service, 'GET', userPath('u'))
    const received_at = formatInstant(service.now())
    const expected = given.map((timestamp, n) => ({ version: `v${n + 1}`, timestamp, received_at }))
    assert.deepEqual(consents, expected)
    assert.deepEqual((await succeed(service, 'GET', USERS)).users, [user])
    assert.deepEqual([user.email, user.consent_version, user.status], ['u@example.org', 'v2', 'linked'])

    await setUser(service, 'u', 'disabled')
    assert.equal((await succeed(service, 'GET', userPath('u'))).status, 'disabled')
    const tenant = await tenantOf(service)
    await service.store.eraseUser(tenant, 'u', AUDIT)
    const erased = await succeed(service, 'GET', userPath('u'))
    assert.deepEqual([erased.email, erased.auth_provider, erased.consents], [null, null, consents])
    assert.equal((await succeed(service, 'GET', USERS)).users[0].email, null)
  })
})

suite('lists', () => {
  test('in pages give each row once, in order, to its own tenant alone', async (t) => {
    const service = await startService(t)
    const ids = ['a', 'Z', 'é', 'b/c', 'b', '\u{1f680}', ' ']
    const sent = await sendFirst(service, ids)
    for (const [i, id] of [...sent.values()].entries())
      await succeed(service, 'POST', confirmPath(id), fill(`o${i}`, '10.00'))
    const stranger = { key: await service.issueKey('acme', 'live') }
    const lists = [
      [PLANS, 'plans', 'partner_plan_id'],
      [USERS, 'users', 'partner_user_id'],
      [EXECUTIONS, 'executions', 'execution_id'],
      [`${TRADES}?month=2026-01`, 'trades', 'execution_id'],
    ] as const
    for (const [path, rows, id] of lists) {
      const whole = await succeed(service, 'GET', path)
      assert.deepEqual([whole.partner_slug, whole.environment, whole.next_cursor], ['acme', 'test', null])
      assert.equal(whole[rows].length, ids.length)
      const keys = whole[rows].map((row: Json) => Buffer.from(String(row[id])))
      assert.deepEqual(keys, [...keys].sort(Buffer.compare), path)
      for (const limit of [1, 2, 3, ids.length, 1000])
        assert.deepEqual(await walk(service, path, rows, limit), whole[rows], `${path} by ${limit}`)
      // A cursor is a position and no key: to another tenant it shows nothing.
      const { next_cursor } = await succeed(service, 'GET', withQuery(path, 'limit=1'))
      const beyond = withQuery(path, `cursor=${next_cursor}`)
      assert.deepEqual((await succeed(service, 'GET', beyond, undefined, stranger))[rows], [])
    }
  })

  test('refuse the cursor of any other list', async (t) => {
    const service = await startService(t)
    const sent = await sendFirst(service, ['a', 'b'])
    for (const [order, id] of [...sent.values()].entries())
      await succeed(service, 'POST', confirmPath(id), fill(`o${order}`, '10.00'))
    const shares = `${SHARES}?month=2026-01`
    const lists = [PLANS, USERS, EXECUTIONS, `${TRADES}?month=2026-01`, shares]
    const cursors = new Map([[shares, wrap(`user ${Date.UTC(2026, 0, 6)} u`)]])
    for (const path of lists.slice(0, -1))
      cursors.set(path, (await succeed(service, 'GET', withQuery(path, 'limit=1'))).next_cursor)
    for (const path of lists)
      for (const [own, cursor] of cursors)
        if (own === path) await succeed(service, 'GET', withQuery(path, `cursor=${cursor}`))
        else await refuseCursor(service, path, cursor)
    for (const of of [SHARES, TRADES])
      await refuseCursor(service, `${of}?month=2026-02`, cursors.get(`${of}?month=2026-01`))
  })

  test('change nothing: no lease, no delivery, no status', async (t) => {
    const service = await startService(t)
    await link(service, 'u')
    await plan(service, 'u', 'p')
    await service.tick(PRICE)
    const before = await executionsOf(service, 'p')
    const [pending] = await walk(service, EXECUTIONS, 'executions', 10)
    const { status, delivered_count, lease_expires_at } = pending ?? {}
    assert.deepEqual([status, delivered_count, lease_expires_at], ['pending', 0, null])
    for (const path of [PLANS, planPath('p'), USERS, userPath('u'), `${TRADES}?month=2026-01`])
      await succeed(service, 'GET', path)
    assert.deepEqual(await executionsOf(service, 'p'), before)
    const early = await service.call('POST', confirmPath(String(pending?.execution_id)), fill('o', '10.00'))
    assert.equal(early.status, 409, 'what was only read cannot be confirmed')
    const [due] = (await poll(service)).get('p') ?? []
    assert.equal(due?.delivered_count, 1)
    // Read while leased, it is unchanged, and stays leased.
    const [sent] = await walk(service, EXECUTIONS, 'executions', 10)
    assert.deepEqual(sent, { ...due, status: 'sent' })
    service.advance(LEASE_MS - 1)
    assert.deepEqual(await poll(service), new Map())
  })

  test('of executions begin at an instant, that one included, and a cursor goes on from there', async (t) => {
    const service = await startService(t)
    await link(service, 'u')
    const created: string[] = []
    for (const id of ['p1', 'p2', 'p3']) {
      await plan(service, 'u', id)
      await service.tick(PRICE)
      created.push(formatInstant(service.now()))
      service.advance(1)
    }
    const plansSince = async (query: string) =>
      each((await succeed(service, 'GET', `${EXECUTIONS}?${query}`)).executions, 'partner_plan_id')
    assert.deepEqual(await plansSince(`since=${created[1]}`), ['p2', 'p3'])
    assert.deepEqual(await plansSince(`since=${formatInstant(service.now())}`), [])
    assert.deepEqual(await plansSince('since=2026-01-05T02:00:00.001%2B02:00'), ['p2', 'p3'])
    const { next_cursor } = await succeed(service, 'GET', `${EXECUTIONS}?limit=1`)
    assert.deepEqual(await plansSince(`cursor=${next_cursor}`), ['p2', 'p3'])
    assert.deepEqual(await plansSince(`cursor=${next_cursor}&since=${created[0]}`), ['p2', 'p3'])
    assert.deepEqual(await plansSince(`cursor=${next_cursor}&since=${created[2]}`), ['p3'])
  })
})

suite('the trades of a month', () => {
  test('have every outcome and every adjustment, and add up to its statement', async (t) => {
    const service = await startService(t)
    const sent = await sendFirst(service, ['a', 'b', 'c'])
    const [a = '', b = '', c = ''] = sent.values()
    await succeed(service, 'POST', confirmPath(a), { ...fill('o1', '10.00'), partner_fee_usd: '0.05' })
    await succeed(service, 'POST', confirmPath(b), fill('o2', '4.00', 'partial'))
    const failed = { partner_order_id: 'o3', status: 'failed', failure_reason: 'no funds' }
    await succeed(service, 'POST', confirmPath(c), failed)
    service.advance(HOUR_MS)
    const right = { usd: usd('9.50'), btc: btc('0.00095'), reason: 'the venue gave 0.50 back' }
    await service.store.adjustTrade(
      a,
      (seen, now) => adjust(seen, right, now),
      () => AUDIT,
    )
    const { trades, final } = await succeed(service, 'GET', `${TRADES}?month=2026-01`)
    assert.equal(final, false)
    assert.deepEqual(each(trades, 'execution_id', 'status', 'usd_amount', 'failure_reason'), [
      [a, 'filled', '10.00', null],
      [b, 'partial', '4.00', null],
      [c, 'failed', null, 'no funds'],
      [a, 'adjustment', '-0.50', 'the venue gave 0.50 back'],
    ])
    const sum = trades.reduce((cents: number, { usd_amount }: Json) => cents + Number(usd_amount) * 100, 0)
    const month = await succeed(service, 'GET', '/partner/v1/billing/monthly?month=2026-01')
    assert.equal(Math.round(sum), Number(month.volume_usd) * 100)
    assert.deepEqual(await walk(service, `${TRADES}?month=2026-01`, 'trades', 1), trades)
  })
})
