// The operator's page over HTTP: its contents, its content security policy, and that no foreign text becomes markup.

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { renameSync } from 'node:fs'
import { test } from 'node:test'
import { type Price, price, usd } from '../../src/core/money.ts'
import { DAY_MS, HOUR_MS, plus } from '../../src/core/time.ts'
import { advanceSandbox } from '../../src/engine/sandbox.ts'
import { html } from '../../src/http/ops/html.ts'
import { drawPrices, shownPrice, shownUsd } from '../../src/http/ops/page.ts'
import { createPages } from '../../src/http/ops/page-calls.ts'
import { machineAt } from '../../src/machine.ts'
import { T0 } from '../store/world.ts'
import { isOnServer } from '../support/database.ts'
import { AUDIT, fill, PLAN, runHere, USER } from '../support/service.ts'
import { until } from '../support/within.ts'
import { startMonitored, withBusiness } from './monitored.ts'
import { confirmPath, DUE, succeed, tenantOf } from './steps.ts'

const TOKEN = 'correct-horse-battery'

const PLACES = ['/ops', '/ops?month=2026-01']

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
    assert.deepEqual(allowed, [`style-src 'sha256-${hash}'`])
    assert.match(policy, /default-src 'none'.*form-action 'none'.*base-uri 'none'.*frame-ancestors 'none'/)
    assert.equal(answer.headers.get('x-frame-options'), 'DENY')
    assert.equal(answer.headers.get('cross-origin-resource-policy'), 'same-origin')
    assert.equal(answer.headers.get('x-content-type-options'), 'nosniff')
    assert.equal(answer.headers.get('cache-control'), 'no-store')
    const tags = text.replace(sheet, '').match(/<[^>]*>/g) ?? []
    const names = tags.map((tag) => tag.replace(/="[^"]*"/g, '='))
    const loading = names.filter((tag) =>
      /^<(script|img|iframe|object|form)|\s(on\w+|style|src)\b/i.test(tag),
    )
    const links = tags.flatMap((tag) => /(?:href|action)="([^"]*)"/.exec(tag)?.[1] ?? [])
    const leading = links.filter((target) => !/^\/ops([?#/]|$)/.test(target))
    assert.deepEqual([leading, loading], [[], []], place)
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

test('money is shown to the cent, with the exact amount beside it, and a small price with all its places', () => {
  const prices = ['64250.12345678', '0.00012345', '64250.1'].map((text) => shownPrice(price(text)))
  assert.deepEqual(prices, ['64250.12', '0.00012345', '64250.10'])
  const shown = ['12.50', '12.34567891', '-0.12600000', '0.00400000'].map((text) =>
    String(shownUsd(usd(text))),
  )
  assert.deepEqual(shown, [
    '12.50',
    '<span title="12.34567891">12.34</span>',
    '<span title="-0.126">-0.13</span>',
    '<span title="0.004">0.00</span>',
  ])
})

test('a template escapes whatever is put into it, in text and in attributes', () => {
  const page = html`<a title="${'"><b>`\''}">${['<', null, html`<i>${'&'}</i>`, false, 0, undefined]}</a>`
  assert.equal(String(page), '<a title="&quot;&gt;&lt;b&gt;&#96;&#39;">&lt;<i>&amp;</i>0</a>')
})

test('what the page says: findings, purchases of today, windows, prices, partners, months', async (t) => {
  const service = await withBusiness(t)
  const text = await (await fetch(`${service.opsUrl}/ops`)).text()
  const headings = ['Findings', 'Purchases today', 'Prices of', 'Windows that end', 'Partners', 'Months']
  for (const heading of headings) assert.ok(text.includes(heading), heading)
  assert.match(text, /<dt>Filled<\/dt><dd>1<\/dd>/)
  assert.match(text, /<dt>Failed<\/dt><dd class="bad">1<\/dd>/)
  assert.match(text, /60100\.00 USD/)
  assert.equal(text.match(/<path class="dot /g)?.length, 2)
  assert.match(
    text,
    /class="dot filled"[\s\S]*class="dot failed"|class="dot failed"[\s\S]*class="dot filled"/,
  )
  // A day later none of it counts as today's any more.
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

test('a row names the command that shows more of it, and leads nowhere', async (t) => {
  const service = await withBusiness(t)
  const { machine } = machineAt(service.now())
  const text = await (await fetch(`${service.opsUrl}/ops`)).text()
  const commands = [...text.matchAll(/<td><code>tranche ([^<]*)<\/code><\/td>/g)].map(
    ([, words = '']) => words,
  )
  assert.ok(commands.includes('partner show globex'))
  assert.ok(commands.includes('plan show p1 --partner globex --env live'))
  const plain = commands.filter((words) => !words.includes('&lt;'))
  assert.equal(plain.filter((words) => words.startsWith('execution show exec_')).length, 2)
  for (const words of plain) {
    const { code, err } = await runHere(['--db', service.file, ...words.split(' ')], { machine })
    assert.equal(code, 0, err)
  }
  assert.doesNotMatch(text, /href="\/ops\?(?!month=)/)
})

test('a month is what billing show says, cut off to the cent, with its row of totals', async (t) => {
  const service = await withBusiness(t)
  service.advance(HOUR_MS)
  await service.tick('50000')
  const options = { key: service.live }
  const [due] = await succeed(service, 'GET', DUE, undefined, options)
  await succeed(service, 'POST', confirmPath(due.execution_id), fill('o3', '4.99001234'), options)
  const monthOf = async () => (await fetch(`${service.opsUrl}/ops?month=2026-01`)).text()
  const { machine } = machineAt(service.now())
  const argv = ['--db', service.file, 'billing', 'show', '--month', '2026-01']
  const shown = async () => (await runHere(argv, { machine })).out
  const cellsOf = (text: string) =>
    [...text.matchAll(/<tr>(.*?)<\/tr>/g)].map(([, row = '']) =>
      row
        .split(/<\/t[hd]>/)
        .slice(0, 8)
        .map((cell) => cell.replaceAll(/<[^>]*>/g, '')),
    )
  const rows = cellsOf(await monthOf())
  const total = rows.at(-1) ?? []
  assert.equal(total[0], 'TOTAL')
  assert.match(await shown(), /cut off to the cent/)
  const [volume, fee] = [total[3] ?? '', total[7] ?? '']
  assert.match(volume, /^\d+\.\d\d$/)
  assert.match(await shown(), new RegExp(`^TOTAL .* ${volume} .* ${fee}$`, 'm'))
  for (const row of rows.slice(1, -1)) {
    const words = row.map((cell) => cell.replace(/([().])/g, '\\$1'))
    assert.match(await shown(), new RegExp(`^${words[0]} live .*${words[3]} .*${words[7]}$`, 'm'))
  }
})

test('a sandbox that lives in the days to come hides no purchase of today', async (t) => {
  const service = await withBusiness(t)
  await service.call('POST', '/partner/v1/users', USER)
  await service.call('POST', '/partner/v1/plans', { ...PLAN, partner_plan_id: 'of-tomorrow' })
  const tenant = await tenantOf(service)
  const machine = { ...machineAt(service.now()).machine, clock: service.now }
  const ahead = { store: service.store, machine, tenant, price: null, audit: AUDIT, onProgress: () => {} }
  await advanceSandbox({ ...ahead, byMs: 24 * HOUR_MS })
  const confirmDue = async (order: string, key: string): Promise<void> => {
    const [due] = await succeed(service, 'GET', DUE, undefined, { key })
    await succeed(service, 'POST', confirmPath(due.execution_id), fill(order, due.amount_usd), { key })
  }
  await confirmDue('of-tomorrow', service.key)
  assert.ok(!(await service.store.findWarnings()).some(({ kind }) => kind === 'clock_back'))
  assert.match(await (await fetch(`${service.opsUrl}/ops`)).text(), /<dt>Filled<\/dt><dd>1<\/dd>/)
  service.advance(2 * HOUR_MS)
  await service.tick('50000')
  await confirmDue('of-today', service.live)
  assert.match(await (await fetch(`${service.opsUrl}/ops`)).text(), /<dt>Filled<\/dt><dd>2<\/dd>/)
})

test('of a long list the page has the first rows, and the command for all of them', async (t) => {
  const { store, opsUrl } = await startMonitored(t)
  const names = Array.from({ length: 200 }, (_, i) => `many-${i}`)
  await Promise.all(names.map((name) => store.addPartner({ partnerSlug: name, name }, AUDIT)))
  assert.match(await (await fetch(`${opsUrl}/ops`)).text(), /151 more: <code>tranche partner list</)
  const month = await (await fetch(`${opsUrl}/ops?month=2026-01`)).text()
  assert.match(month, />1 more: <code>tranche billing show --month 2026-01</)
})

test('an empty service has a page too, and what is not there is not found', async (t) => {
  const { opsUrl } = await startMonitored(t)
  const text = await (await fetch(`${opsUrl}/ops`)).text()
  assert.match(text, /Nothing to look after[\s\S]*There are no prices[\s\S]*Nothing has fired yet/)
  for (const path of ['/ops?month=2026-13', '/ops?month=', '/ops/invoice?month=2026-01&partner=acme'])
    assert.equal((await fetch(opsUrl + path)).status, 404, path)
  const users = 'month=2026-01&report=users&partner=none'
  for (const query of ['', 'month=2026-01', 'month=x&report=users', 'month=2026-01&report=invoices', users])
    assert.equal((await fetch(`${opsUrl}/ops/export?${query}`)).status, 404, query)
  for (const method of ['DELETE', 'POST', 'HEAD']) {
    const { status, headers } = await fetch(`${opsUrl}/ops`, { method })
    assert.deepEqual([status, headers.get('allow')], [405, 'GET'], method)
  }
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

test('two downloads run at a time, until each is read to its end or given up', async (t) => {
  const { store, now } = await withBusiness(t)
  const pages = createPages(now)
  const download = async () => {
    const { body } = await pages('/ops/export', new URLSearchParams('month=2026-01&report=users'), store)
    assert.ok(body instanceof ReadableStream)
    return body
  }
  const [first, second] = [await download(), await download()]
  await assert.rejects(download, { code: 'too_many_calls' })
  await first.cancel()
  const open = [second]
  await until(5_000, 'the end of what was given up', async () => open.push(await download()))
  await assert.rejects(download, { code: 'too_many_calls' })
  for (const body of open) assert.match(await new Response(body).text(), /^month,/)
  await Promise.all([download(), download()])
})

test('every refusal of the page has its code', async (t) => {
  const { opsUrl } = await startMonitored(t, { token: TOKEN })
  const headers = { authorization: `Bearer ${TOKEN}` }
  const starting = await startMonitored(t, { token: TOKEN, isOpen: false })
  for (const [answer, expected] of [
    [fetch(`${opsUrl}/ops`), [401, 'key_malformed']],
    [fetch(`${opsUrl}/ops`, { headers: { authorization: 'Bearer x' } }), [401, 'key_invalid']],
    [fetch(`${opsUrl}/ops?month=x`, { headers }), [404, 'route_not_found']],
    [fetch(`${opsUrl}/ops`, { method: 'DELETE', headers }), [405, 'method_not_allowed']],
    [fetch(`${starting.opsUrl}/ops`), [401, 'key_malformed']],
    [fetch(`${starting.opsUrl}/ops`, { headers }), [503, 'starting']],
    [fetch(`${opsUrl}/ops`, { headers }), [200, null]],
  ] as const) {
    const seen = await answer
    assert.deepEqual([seen.status, seen.headers.get('x-error-code')], expected)
  }
  const opening = await (await fetch(`${starting.opsUrl}/ops`, { headers })).text()
  assert.match(opening, /<meta http-equiv="refresh"/, 'it asks again by itself')
})

test('while the database is away the page says so, and asks again by itself', async (t) => {
  const { opsUrl, store, file, advance } = await withBusiness(t)
  if (isOnServer) await store.close()
  else renameSync(file, `${file}.moved`)
  // The page notices within a tenth of a second.
  const end = performance.now() + 30_000
  while ((await fetch(`${opsUrl}/ops`)).status === 200) {
    assert.ok(performance.now() < end, 'it goes on')
    // A cached reading is shown for a moment.
    advance(3_000)
  }
  for (const place of PLACES) {
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
  assert.equal((await fetch(`${opsUrl}/ops/export?month=2026-01&report=summary`)).status, 503)
})
