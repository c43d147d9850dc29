// The page of the operator over HTTP: who gets in and how, what it may load, and that nobody's words become markup.

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { renameSync } from 'node:fs'
import { test } from 'node:test'
import { type Price, price, usd } from '../../src/core/money.ts'
import { DAY_MS, HOUR_MS, plus } from '../../src/core/time.ts'
import { advanceSandbox } from '../../src/engine/sandbox.ts'
import { COOKIE, WRONG_TOKENS_MAX } from '../../src/http/ops/access.ts'
import { html } from '../../src/http/ops/html.ts'
import { drawPrices, shownPrice, shownUsd } from '../../src/http/ops/page.ts'
import { machineAt } from '../../src/machine.ts'
import { T0 } from '../store/world.ts'
import { isOnServer } from '../support/database.ts'
import { AUDIT, fill, PLAN, runHere, USER } from '../support/service.ts'
import { HOSTILE, startMonitored, withBusiness } from './monitored.ts'

const TOKEN = 'correct-horse-battery'

type Given = Record<string, string>
const signIn = (url: string, token: string, headers: Given = {}): Promise<Response> =>
  fetch(`${url}/ops`, { method: 'POST', redirect: 'manual', headers, body: new URLSearchParams({ token }) })
const cookieOf = (answer: Response): string => (answer.headers.get('set-cookie') ?? '').split(';')[0] ?? ''
const statusWith = async (url: string, cookie: string): Promise<number> =>
  (await fetch(url, { headers: { cookie } })).status

const PLACES = [
  '/ops',
  '/ops?q=GLOB',
  '/ops?partner=globex',
  '/ops?partner=globex&env=test',
  '/ops?partner=globex&plan=p1',
  `/ops?partner=globex&env=live&plan=${encodeURIComponent(HOSTILE)}`,
  '/ops?month=2026-01',
  `/ops?q=${encodeURIComponent(HOSTILE)}`,
]

test('on every page nothing but its own sheet is let in, and whatever partners write is text', async (t) => {
  const { opsUrl } = await withBusiness(t)
  for (const place of PLACES) {
    const answer = await fetch(opsUrl + place)
    const text = await answer.text()
    assert.equal(answer.status, 200, place)
    const sheet = /<style>([\s\S]*?)<\/style>/.exec(text)?.[1] ?? ''
    const hash = createHash('sha256').update(sheet).digest('base64')
    const policy = answer.headers.get('content-security-policy') ?? ''
    const allowed = policy.split('; ').filter((part) => !part.endsWith(" 'none'"))
    assert.deepEqual(allowed, [`style-src 'sha256-${hash}'`, "form-action 'self'"])
    assert.match(policy, /default-src 'none'.*base-uri 'none'.*frame-ancestors 'none'/)
    assert.equal(answer.headers.get('x-content-type-options'), 'nosniff')
    assert.equal(answer.headers.get('cache-control'), 'no-store')
    const tags = text.replace(sheet, '').match(/<[^>]*>/g) ?? []
    const names = tags.map((tag) => tag.replace(/="[^"]*"/g, '='))
    const loading = names.filter((tag) => /^<(script|img|iframe|object)|\s(on\w+|style|src)\b/i.test(tag))
    const links = tags.flatMap((tag) => /(?:href|action)="([^"]*)"/.exec(tag)?.[1] ?? [])
    assert.deepEqual(
      links.filter((target) => !/^\/ops([?#/]|$)/.test(target)),
      [],
      place,
    )
    assert.deepEqual(loading, [], place)
    assert.ok(!text.includes('\u202e'), place)
    assert.ok(text.length < 100_000, `${place} has ${text.length} characters`)
  }
  const shown = await (await fetch(`${opsUrl}/ops`)).text()
  assert.ok(shown.includes('&lt;img src=x onerror=alert(1)&gt;&quot;&#39;&amp;\\u202e'))
})

test('the prices of a young service fill the drawing, and one alone is a line', () => {
  const to = plus(T0, 7 * DAY_MS)
  const pathOf = (points: { at: typeof T0; price: Price }[]): string =>
    /class="line" d="([^"]*)"/.exec(String(drawPrices({ points, tranches: [], from: T0, to })))?.[1] ?? ''
  const young = [2, 1].map((hours) => ({ at: plus(to, -hours * HOUR_MS), price: price(String(hours)) }))
  assert.equal(pathOf(young), 'M0.0 8.0L500.0 182.0L1000.0 182.0')
  assert.equal(pathOf(young.slice(1)), 'M0.0 95.0L1000.0 95.0')
})

test('money is shown to the cent, with the exact amount beside it, and more where a cent would be much', () => {
  assert.deepEqual(
    ['64250.12345678', '0.00012345', '64250.1'].map((text) => shownPrice(price(text))),
    ['64250.12', '0.00012345', '64250.10'],
  )
  const shown = ['12.50', '12.34567891', '-0.12600000', '0.00400000'].map((text) =>
    String(shownUsd(usd(text))),
  )
  assert.deepEqual(shown, [
    '12.50',
    '<span title="12.34567891">12.35</span>',
    '<span title="-0.126">-0.13</span>',
    '0.004',
  ])
})

test('a template escapes whatever is put into it, in text and in attributes', () => {
  const page = html`<a title="${'"><b>`\''}">${['<', null, html`<i>${'&'}</i>`, false, 0, undefined]}</a>`
  assert.equal(String(page), '<a title="&quot;&gt;&lt;b&gt;&#96;&#39;">&lt;<i>&amp;</i>0</a>')
})

test('what the page says: findings, purchases of today, windows, prices, partners, months', async (t) => {
  const service = await withBusiness(t)
  const text = await (await fetch(`${service.opsUrl}/ops`)).text()
  for (const heading of [
    'Findings',
    'Purchases today',
    'Prices of',
    'Windows that end',
    'Partners',
    'Months',
  ])
    assert.ok(text.includes(heading), heading)
  assert.match(text, /<dt>Filled<\/dt><dd>1<\/dd>/)
  assert.match(text, /<dt>Failed<\/dt><dd class="bad">1<\/dd>/)
  assert.match(text, /60100\.00 USD/)
  assert.equal(text.match(/<path class="dot /g)?.length, 2)
  assert.match(
    text,
    /class="dot filled"[\s\S]*class="dot failed"|class="dot failed"[\s\S]*class="dot filled"/,
  )
  // A day later none of it is of today any more.
  service.advance(24 * HOUR_MS)
  const next = await (await fetch(`${service.opsUrl}/ops`)).text()
  assert.match(next, /<dt>Filled<\/dt><dd>0<\/dd>/)
  assert.match(next, /<div class="finding page">\s*<strong>ticks_stopped<[\s\S]*?<code>tranche tick<\/code>/)
})

test('a window that is over, but that no tick has closed, is not said to end now', async (t) => {
  const service = await withBusiness(t)
  const endsOf = async (): Promise<string> => {
    const text = await (await fetch(`${service.opsUrl}/ops`)).text()
    return text.slice(text.indexOf('Windows that end'), text.indexOf('<h2>Partners'))
  }
  assert.match(await endsOf(), /\(in [1-9][^)]*\)/)
  service.advance(3 * DAY_MS)
  const over = await endsOf()
  assert.match(over, />2 d [^<]*ago</)
  assert.doesNotMatch(over, /\(in 0 s\)/)
})

test('a plan waits for a price, or for an instant while no price has come in its slot', async (t) => {
  const service = await withBusiness(t)
  const waitsFor = async (): Promise<string | undefined> => {
    const text = await (await fetch(`${service.opsUrl}/ops?partner=globex&env=live&plan=p1`)).text()
    return /<dt>Waits for<\/dt><dd>(.*?)<\/dd>/.exec(text)?.[1]
  }
  assert.match((await waitsFor()) ?? '', /^\d{5}\.\d+ USD$/)
  // The next slot begins without a live price.
  service.advance(8 * HOUR_MS)
  await service.tick()
  assert.match((await waitsFor()) ?? '', /^2026-01-0\d \d\d:\d\d/)
})

test('a sandbox that lives in the days to come hides no purchase of today', async (t) => {
  const service = await withBusiness(t)
  await service.call('POST', '/partner/v1/users', USER)
  await service.call('POST', '/partner/v1/plans', { ...PLAN, partner_plan_id: 'of-tomorrow' })
  const tenant = await service.store.findTenant('acme', 'test')
  assert.ok(tenant)
  const machine = { ...machineAt(service.now()).machine, clock: service.now }
  const ahead = { store: service.store, machine, tenant, price: null, audit: AUDIT, onProgress: () => {} }
  await advanceSandbox({ ...ahead, byMs: 24 * HOUR_MS })
  const confirmDue = async (order: string, key: string): Promise<void> => {
    const [due] = (await service.call('GET', '/partner/v1/executions/due', undefined, { key })).body
    const confirm = `/partner/v1/executions/${due.execution_id}/confirm`
    assert.equal((await service.call('POST', confirm, fill(order, due.amount_usd), { key })).status, 200)
  }
  await confirmDue('of-tomorrow', service.key)
  assert.match(await (await fetch(`${service.opsUrl}/ops`)).text(), /<dt>Filled<\/dt><dd>1<\/dd>/)
  service.advance(2 * HOUR_MS)
  await service.tick('50000')
  await confirmDue('of-today', service.live)
  assert.match(await (await fetch(`${service.opsUrl}/ops`)).text(), /<dt>Filled<\/dt><dd>2<\/dd>/)
})

test('an empty service has a page too, and what is not there is not found', async (t) => {
  const { opsUrl } = await startMonitored(t)
  const text = await (await fetch(`${opsUrl}/ops`)).text()
  assert.match(text, /Nothing to look after[\s\S]*There are no prices[\s\S]*Nothing has fired yet/)
  for (const query of [
    'partner=none',
    'partner=acme&plan=none',
    'month=2026-13',
    'page=-1',
    'partner=acme&after=x',
  ])
    assert.equal((await fetch(`${opsUrl}/ops?${query}`)).status, 404, query)
  for (const query of [
    '',
    'month=2026-01',
    'month=x&report=users',
    'month=2026-01&report=x',
    'month=2026-01&report=users&partner=none',
  ])
    assert.equal((await fetch(`${opsUrl}/ops/export?${query}`)).status, 404, query)
  assert.equal((await fetch(`${opsUrl}/ops`, { method: 'DELETE' })).status, 405)
})

test('a month as CSV is what billing export writes, byte for byte', async (t) => {
  const service = await withBusiness(t)
  for (const report of ['summary', 'users', 'trades']) {
    const answer = await fetch(`${service.opsUrl}/ops/export?month=2026-01&report=${report}&partner=globex`)
    const name = `tranche-globex-2026-01-${report}.csv`
    assert.equal(answer.headers.get('content-disposition'), `attachment; filename="${name}"`)
    const argv = ['--db', service.file, 'billing', 'export', '--month', '2026-01', '--report', report]
    const { machine } = machineAt(service.now())
    const { out } = await runHere([...argv, '--partner', 'globex'], { machine })
    assert.equal(await answer.text(), out, report)
    assert.ok(out.includes('globex'))
  }
})

test('an invoice is the one that billing invoice makes, under a policy that lets its own sheet in', async (t) => {
  const service = await withBusiness(t)
  const answer = await fetch(`${service.opsUrl}/ops/invoice?month=2026-01&partner=globex`)
  const text = await answer.text()
  const { machine } = machineAt(service.now())
  const argv = ['--db', service.file, 'billing', 'invoice', '--month', '2026-01', '--partner', 'globex']
  const { out } = await runHere([...argv, '--format', 'html'], { machine })
  assert.equal(text, out)
  const sheet = /<style>([\s\S]*?)<\/style>/.exec(text)?.[1] ?? ''
  const hash = createHash('sha256').update(sheet).digest('base64')
  assert.ok(answer.headers.get('content-security-policy')?.includes(`style-src 'sha256-${hash}';`))
  for (const query of ['month=2026-01', 'month=2026-01&partner=none', 'partner=globex'])
    assert.equal((await fetch(`${service.opsUrl}/ops/invoice?${query}`)).status, 404, query)
})

test('without a token there is no page at the API’s listener; with one, a form', async (t) => {
  const bare = await startMonitored(t)
  assert.equal((await fetch(`${bare.url}/ops`)).status, 401)
  assert.equal((await signIn(bare.url, TOKEN)).status, 401)
  assert.equal(
    (await fetch(`${bare.url}/ops`, { headers: { authorization: `Bearer ${bare.key}` } })).status,
    404,
  )
  const { url, opsUrl } = await startMonitored(t, { token: TOKEN })
  for (const one of [url, opsUrl]) {
    const asked = await fetch(`${one}/ops`)
    const text = await asked.text()
    assert.equal(asked.status, 401)
    assert.match(text, /type="password"/)
    assert.doesNotMatch(text, /Findings|acme|Sign out/)
    assert.equal((await fetch(`${one}/ops/export?month=2026-01&report=trades`)).status, 401)
    const bearer = { authorization: `Bearer ${TOKEN}` }
    assert.equal((await fetch(`${one}/ops`, { headers: bearer })).status, 200)
  }
})

test('signing in sets a strict cookie that is not the token, lasts half a day, and opens the page alone', async (t) => {
  const service = await startMonitored(t, { token: TOKEN })
  const { url } = service
  const wrong = await signIn(url, 'wrong')
  assert.deepEqual([wrong.status, wrong.headers.get('set-cookie')], [401, null])
  const right = await signIn(url, TOKEN)
  assert.deepEqual([right.status, right.headers.get('location')], [303, '/ops'])
  const set = right.headers.get('set-cookie') ?? ''
  assert.match(set, /^tranche_ops=\d+\.[\w-]{43}; Path=\/ops; Max-Age=43200; HttpOnly; SameSite=Strict$/)
  assert.ok(!set.includes(TOKEN))
  const overTls = await signIn(url, TOKEN, { origin: 'https://api.example', host: 'api.example' })
  if (overTls.status === 303) assert.match(overTls.headers.get('set-cookie') ?? '', /; Secure$/)
  const cookie = cookieOf(right)
  assert.equal(await statusWith(`${url}/ops`, `a=b; ${cookie}; c=d`), 200)
  assert.equal(await statusWith(`${url}/ops/export?month=2026-01&report=users`, cookie), 200)
  // A browser sends it with whatever it is told to ask; only the page takes it.
  assert.equal(await statusWith(`${url}/metrics`, cookie), 401)
  const [, expires = '', seal = ''] = /=(\d+)\.(.*)$/.exec(cookie) ?? []
  for (const forged of [
    `${Number(expires) + 1}.${seal}`,
    `${expires}.${seal.slice(0, -1)}`,
    `${expires}.`,
    seal,
    TOKEN,
  ])
    assert.equal(await statusWith(`${url}/ops`, `${COOKIE}=${forged}`), 401, forged)
  const other = await startMonitored(t, { token: `${TOKEN}-2` })
  assert.equal(await statusWith(`${other.url}/ops`, cookie), 401)
  service.advance(12 * HOUR_MS)
  assert.equal(await statusWith(`${url}/ops`, cookie), 401)
})

test('the form takes nothing from another site, nothing huge, and after many guesses only the token', async (t) => {
  const { url, opsUrl } = await startMonitored(t, { token: TOKEN })
  for (const headers of [
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { origin: 'https://evil.example' },
    { origin: 'null' },
  ])
    assert.equal((await signIn(url, TOKEN, headers)).status, 403, JSON.stringify(headers))
  assert.equal((await signIn(url, TOKEN, { origin: url })).status, 303)
  assert.equal((await signIn(url, 'x'.repeat(70_000))).status, 413)
  const signOut = await fetch(`${url}/ops`, {
    method: 'POST',
    redirect: 'manual',
    body: new URLSearchParams({ 'sign-out': 'yes' }),
  })
  assert.match(signOut.headers.get('set-cookie') ?? '', /^tranche_ops=; .*Max-Age=0/)
  for (let i = 0; i < WRONG_TOKENS_MAX; i++) assert.equal((await signIn(url, `guess-${i}`)).status, 401)
  const refused = await signIn(url, 'guess')
  const { headers } = refused
  assert.deepEqual([refused.status, headers.get('set-cookie'), headers.get('retry-after')], [429, null, '60'])
  assert.match(await refused.text(), /Wait a minute before you try another/)
  assert.equal((await signIn(opsUrl, 'guess')).status, 401, 'the other listener has a count of its own')
  for (const at of [url, opsUrl]) assert.equal((await signIn(at, TOKEN)).status, 303)
})

test('every refusal of the page has its code', async (t) => {
  const { url, opsUrl } = await startMonitored(t, { token: TOKEN })
  const bearer = { authorization: `Bearer ${TOKEN}` }
  const asked = async (answer: Response | Promise<Response>) => {
    const { status, headers } = await answer
    return [status, headers.get('x-error-code')]
  }
  const starting = await startMonitored(t, { token: TOKEN, isOpen: false })
  for (const [answer, expected] of [
    [fetch(`${opsUrl}/ops`), [401, 'key_malformed']],
    [fetch(`${opsUrl}/ops`, { headers: { authorization: 'Bearer x' } }), [401, 'key_invalid']],
    [signIn(url, 'wrong'), [401, 'key_invalid']],
    [signIn(url, TOKEN, { 'sec-fetch-site': 'cross-site' }), [403, 'cross_site']],
    [signIn(url, 'x'.repeat(70_000)), [413, 'body_too_large']],
    [fetch(`${opsUrl}/ops?partner=none`, { headers: bearer }), [404, 'route_not_found']],
    [fetch(`${opsUrl}/ops/export?month=x`, { headers: bearer }), [404, 'route_not_found']],
    [fetch(`${opsUrl}/ops`, { method: 'DELETE', headers: bearer }), [405, 'method_not_allowed']],
    [fetch(`${starting.opsUrl}/ops`, { headers: bearer }), [503, 'starting']],
    [fetch(`${opsUrl}/ops`, { headers: bearer }), [200, null]],
    [signIn(url, TOKEN), [303, null]],
  ] as const)
    assert.deepEqual(await asked(answer), expected)
  const opening = await (await fetch(`${starting.opsUrl}/ops`, { headers: bearer })).text()
  assert.match(opening, /<meta http-equiv="refresh"/, 'it asks again by itself')
  for (let i = 0; i < WRONG_TOKENS_MAX; i++) await signIn(url, `guess-${i}`)
  assert.deepEqual(await asked(signIn(url, 'guess')), [429, 'rate_limited'])
})

test('while the database is away the page says so, and asks again by itself', async (t) => {
  const { opsUrl, store, file, advance } = await withBusiness(t)
  if (isOnServer) await store.close()
  else renameSync(file, `${file}.moved`)
  // It is noticed within a tenth of a second.
  const end = performance.now() + 30_000
  while ((await fetch(`${opsUrl}/ops?q=`)).status === 200) {
    assert.ok(performance.now() < end, 'it goes on')
    // What was read is shown again for a moment.
    advance(3_000)
  }
  for (const place of ['/ops', '/ops?partner=globex', '/ops?month=2026-01']) {
    const away = await fetch(opsUrl + place)
    assert.equal(away.status, 503, place)
    assert.match(away.headers.get('content-type') ?? '', /^text\/html/)
    assert.equal(away.headers.get('x-error-code'), 'database_unavailable')
    assert.match(away.headers.get('retry-after') ?? '', /^\d+$/)
    const text = await away.text()
    assert.match(text, /The database cannot be used at present\./)
    assert.match(text, isOnServer ? /cannot be reached/ : /was removed or replaced while it was open/)
    assert.match(text, /http-equiv="refresh"/)
  }
  const download = await fetch(`${opsUrl}/ops/export?month=2026-01&report=summary`)
  assert.equal(download.status, 503)
})
