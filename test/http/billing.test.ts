// The two billing endpoints: their answers, page by page, and their refusals.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Store } from '../../src/store/store.ts'
import { type Entry, enterInto, utc } from '../billing/books.ts'
import { shell } from '../levers/steps.ts'
import { fill, type ServiceOptions, startService } from '../support/service.ts'
import { confirmPath, sendFirst, succeed } from './steps.ts'

const MONTHLY = '/partner/v1/billing/monthly'
const USERS = `${MONTHLY}/users`

async function openJanuary(
  t: Parameters<typeof startService>[0],
  entries: readonly Entry[],
  options: ServiceOptions = {},
) {
  const service = await startService(t, options)
  const live = await service.issueKey('acme', 'live')
  enterInto(service.file, { slug: 'acme', environment: 'live' }, entries)
  service.setClock(utc(2026, 1))
  await service.tick()
  return { service, live, read: (path: string) => succeed(service, 'GET', path, undefined, { key: live }) }
}

const users = (names: readonly string[]): Entry[] =>
  names.map((user, i) => ({ user, at: utc(2026, 0, 7, 0, 0, i), usd: `${i + 1}.50`, fee: '0.05' }))

test('a month is answered as the exports have it, with its totals', async (t) => {
  const { service, read } = await openJanuary(t, [
    { user: 'a', at: utc(2026, 0, 6), usd: '100.00', btc: '0.00150000', fee: '0.25' },
    { user: 'b', at: utc(2026, 0, 7), usd: '50.00000001', btc: '0.00080000', status: 'partial' },
    { user: 'b', at: utc(2026, 0, 8), reason: 'no funds' },
    { user: 'c', at: utc(2026, 0, 9), status: 'cancelled' },
  ])
  const exported = async (report: string) => {
    const words = `billing export --month 2026-01 --env live --format json --report ${report}`
    return JSON.parse(await shell(service, words.split(' ')))
  }
  assert.deepEqual([await read(`${MONTHLY}?month=2026-01`)], await exported('summary'))
  const { users, totals, next_cursor, ...month } = await read(`${USERS}?month=2026-01`)
  const rows = users.map((user: object) => ({ ...month, ...user }))
  assert.deepEqual(rows, await exported('users'))
  assert.equal(next_cursor, null)
  assert.deepEqual(totals, {
    trade_count: 2,
    volume_usd: '150.00000001',
    volume_btc: '0.00230000',
    average_price_usd: '65217.3913087',
    partner_fees_usd: '0.25',
    fee_usd: '0.75',
  })
})

async function pages(read: (path: string) => Promise<Page>, query: string): Promise<Page[]> {
  const all: Page[] = []
  for (let cursor: string | null = null; all.length < 100; ) {
    const page = await read(`${USERS}?month=2026-01${query}${cursor === null ? '' : `&cursor=${cursor}`}`)
    all.push(page)
    cursor = page.next_cursor
    if (cursor === null) return all
  }
  throw new Error('the pages do not end')
}
type Page = { users: { partner_user_id: string }[]; totals: unknown; next_cursor: string | null }

test('pages hold every user once, whatever their names and the size of a page', async (t) => {
  const names = ['', ...'aäßzZ09=/+?&#🙂漢'].map((letter) => `${letter}user ${letter}`)
  const { read } = await openJanuary(t, users(names))
  const [whole] = await pages(read, '')
  assert.equal(whole?.next_cursor, null)
  const wanted = whole?.users ?? []
  assert.deepEqual(wanted.map((user) => user.partner_user_id).sort(), names.toSorted())
  for (const limit of [1, 3, names.length - 1, names.length, 1000]) {
    const seen = await pages(read, `&limit=${limit}`)
    assert.equal(seen.length, Math.ceil(names.length / limit), `pages of ${limit}`)
    const found = seen.flatMap((page) => page.users)
    assert.deepEqual(found, wanted)
    for (const page of seen) assert.deepEqual(page.totals, whole?.totals)
  }
})

test('a page has 100 users unless said otherwise, and one behind the last user is empty', async (t) => {
  const { read } = await openJanuary(t, users(Array.from({ length: 101 }, (_, i) => `u${i}`)))
  const sizes = (await pages(read, '')).map((page) => page.users.length)
  assert.deepEqual(sizes, [100, 1])
  const cursor = Buffer.from(`user ${utc(2026, 1, 1)} zzz`).toString('base64url')
  const page = await read(`${USERS}?month=2026-01&cursor=${cursor}`)
  assert.deepEqual([page.users, page.next_cursor], [[], null])
})

test('all pages show the month as the first one did, no matter who joins between them', async (t) => {
  const { service, read } = await openJanuary(t, users(['b', 'd', 'f']))
  service.setClock(utc(2026, 0, 20))
  const first = await read(`${USERS}?month=2026-01&limit=2`)
  enterInto(service.file, { slug: 'acme', environment: 'live' }, users(['a', 'c', 'e']))
  const second = await read(`${USERS}?month=2026-01&limit=2&cursor=${first.next_cursor}`)
  const ids = [first, second].map((page: Page) => page.users.map((user) => user.partner_user_id))
  assert.deepEqual(ids, [['b', 'd'], ['f']])
  assert.deepEqual(second.totals, first.totals)
})

test('the month is read once for all pages, and anew by who begins again', async (t) => {
  let reads = 0
  const wrap = (store: Store): Store => ({
    ...store,
    readActivity(...of) {
      reads += 1
      return store.readActivity(...of)
    },
  })
  const { service, read } = await openJanuary(t, users(['a', 'b', 'c', 'd']), { wrap })
  service.setClock(utc(2026, 0, 20))
  assert.equal((await pages(read, '&limit=1')).length, 4)
  assert.equal(reads, 1)
  // The clock advances: a caller that reads two listings at once sees each unchanged.
  const [one] = [await read(`${USERS}?month=2026-01&limit=2`)]
  service.advance(1_000)
  const other = await read(`${USERS}?month=2026-01&limit=2`)
  assert.equal(reads, 3)
  for (const { next_cursor } of [one, other])
    await read(`${USERS}?month=2026-01&limit=2&cursor=${next_cursor}`)
  assert.equal(reads, 3)
})

test('a cursor of another tenant goes on in nobody’s users but one’s own', async (t) => {
  const { service, read } = await openJanuary(t, users(['a', 'b', 'c']))
  const strangers = [
    { slug: 'acme', environment: 'test' },
    { slug: 'other', environment: 'live' },
    { slug: 'other', environment: 'test' },
  ] as const
  const keys: string[] = []
  for (const { slug, environment } of strangers) keys.push(await service.issueKey(slug, environment))
  for (const who of strangers) enterInto(service.file, who, users([`own of ${who.slug} ${who.environment}`]))
  const { next_cursor: theirs } = await read(`${USERS}?month=2026-01&limit=1`)
  for (const key of keys) {
    const own = await succeed(service, 'GET', `${USERS}?month=2026-01`, undefined, { key })
    assert.equal(own.users.length, 1)
    const path = `${USERS}?month=2026-01&cursor=${theirs}`
    assert.deepEqual(await succeed(service, 'GET', path, undefined, { key }), own)
  }
})

test('the present month at once, and others as zeros, final only when they are over', async (t) => {
  const service = await startService(t)
  const sent = await sendFirst(service, ['p1', 'p2'])
  await succeed(service, 'POST', confirmPath(sent.get('p1') ?? ''), fill('o1', '10.00'))
  const monthOf = (month: string) => succeed(service, 'GET', `${MONTHLY}?month=${month}`)
  assert.partialDeepStrictEqual(await monthOf('2026-01'), {
    environment: 'test',
    final: false,
    billable: false,
    trade_count: 1,
    volume_usd: '10.00',
    total_fee_usd: '0.00',
  })
  for (const month of ['2026-02', '9999-12', '2025-12', '1970-01', '1969-12', '0001-01']) {
    const { final, trade_count, executions_created, volume_usd } = await monthOf(month)
    assert.deepEqual([final, trade_count, executions_created, volume_usd], [month < '2026-01', 0, 0, '0.00'])
  }
})
