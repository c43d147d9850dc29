// What a body may be before its fields are looked at: bytes, text, JSON, an object.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fill, PLAN, startService, USER } from '../support/service.ts'
import { confirmPath, PLANS, sendFirst, succeed, USERS, userPath, WEBHOOKS } from './steps.ts'

const WRITES = [
  ['POST', USERS],
  ['PATCH', userPath('u1')],
  ['POST', PLANS],
  ['POST', confirmPath('exec_0')],
  ['POST', WEBHOOKS],
] as const

/** Broken JSON, and how far a reader gets before it is broken. */
const BROKEN: readonly (readonly [text: string, offset: number])[] = [
  ['nope', 0],
  ['{"a":}', 5],
  ['{"a" 1}', 5],
  ['{"a":1,}', 7],
  ['{"a":1} x', 8],
  ['{}{}', 2],
  ["{'a':1}", 1],
  ['{a:1}', 1],
  ['{"a":NaN}', 5],
  ['{"a":-Infinity}', 5],
  ['{"a":undefined}', 5],
  ['{"a":1', 6],
  ['{', 1],
  ['/* note */{}', 0],
]

/** Broken too; where exactly is a matter of taste, so only that it is told is asked for. */
const BROKEN_SOMEWHERE = [
  '{"a":"x',
  '{"a":"\n"}',
  '{"a":"\\x"}',
  '{"a":"\\u12"}',
  '{"a":01}',
  '{"a":.5}',
  '{"a":1.}',
  '{"a":+1}',
  '{"a":0x10}',
  '\u0000',
  '{}\u0000',
  '\u00a0{}',
  '['.repeat(60_000),
  '{"a":'.repeat(12_000),
  `[${'{"a":['.repeat(10_000)}`,
]

test('broken JSON is told with the offset where it breaks', async (t) => {
  const service = await startService(t)
  for (const [method, path] of WRITES) {
    for (const [text, offset] of BROKEN) {
      const { status, body } = await service.call(method, path, text)
      assert.equal(status, 422, text)
      assert.deepEqual(
        body.detail,
        [{ type: 'json_invalid', loc: ['body', offset], msg: 'JSON decode error' }],
        text,
      )
    }
  }
  for (const text of BROKEN_SOMEWHERE) {
    const { status, body } = await service.call('POST', USERS, text)
    const told = JSON.stringify(text.slice(0, 40))
    assert.equal(status, 422, told)
    const [{ type, loc, msg }] = body.detail
    assert.deepEqual([type, loc[0], msg], ['json_invalid', 'body', 'JSON decode error'], told)
    assert.ok(Number.isInteger(loc[1]) && 0 <= loc[1] && loc[1] <= text.length, `${told} at ${loc[1]}`)
  }
})

test('a body that is not JSON has its type in the line of the call, and nothing else of it', async (t) => {
  const lines: object[] = []
  const info = (line: object) => void lines.push(line)
  const log = { debug: () => {}, info, warn: () => {}, error: () => {} }
  const { url, key } = await startService(t, { log })
  const authorization = `Bearer ${key}`
  const post = async (body: string | Uint8Array<ArrayBuffer>, type?: string) => {
    const headers = { authorization, ...(type !== undefined && { 'content-type': type }) }
    const answer = await fetch(`${url}${USERS}`, { method: 'POST', headers, body })
    return { status: answer.status, text: await answer.text(), type: Object(lines.at(-1)).content_type }
  }
  const FORM = 'application/x-www-form-urlencoded'
  for (const [body, type, told] of [
    ['partner_user_id=u-1', `${FORM}; charset=utf-8`, FORM],
    ['<user id="u-1"/>', 'Text/XML', 'text/xml'],
    ['{"partner_user_id"', 'application/json', 'application/json'],
    [Buffer.from('u-1'), undefined, 'none'],
    ['u-1', `text/${'x'.repeat(200)}`, 'unreadable'],
    ['u-1', `text/${key}`, 'unreadable'],
    ['u-1', 'text/plain\u00e9', 'unreadable'],
  ] as const) {
    const { status, text, type: seen } = await post(body, type)
    assert.deepEqual([status, seen], [422, told], text)
    const [detail] = JSON.parse(text).detail
    assert.deepEqual(Object.keys(detail), ['type', 'loc', 'msg'], 'what is sent is that of the contract')
  }
  // What is JSON is taken by any name, and its line names none.
  assert.deepEqual([(await post('{}', FORM)).status, Object(lines.at(-1)).content_type], [422, undefined])
  assert.doesNotMatch(JSON.stringify(lines), /u-1|sse_/)
})

test('an empty body is missing, another JSON type is not an object', async (t) => {
  const service = await startService(t)
  const missing = [{ type: 'missing', loc: ['body'], msg: 'Field required' }]
  const noObject = [
    {
      type: 'model_attributes_type',
      loc: ['body'],
      msg: 'Input should be a valid dictionary or object to extract fields from',
    },
  ]
  const cases = [
    ...[undefined, '', '   ', '\r\n\t '].map((text) => [text, missing] as const),
    ...['null', '[]', '[{}]', '"text"', '1', '-0.5e1', 'true', ' false '].map(
      (text) => [text, noObject] as const,
    ),
  ]
  for (const [method, path] of WRITES) {
    for (const [text, detail] of cases) {
      const answer = await service.call(method, path, text)
      assert.equal(answer.status, 422, `${method} ${path} ${text}`)
      assert.deepEqual(answer.body.detail, detail, `${method} ${path} ${text}`)
    }
  }
})

test('bytes that are not UTF-8 are refused before they are read as JSON', async (t) => {
  const service = await startService(t)
  const quoted = (...bytes: number[]) =>
    Buffer.concat([Buffer.from('{"partner_user_id":"'), Buffer.from(bytes), Buffer.from('"}')])
  const cases = {
    'a lone byte': quoted(0xff),
    'a cut sequence': quoted(0xe2, 0x82),
    'an overlong form': quoted(0xc0, 0xaf),
    'a surrogate': quoted(0xed, 0xa0, 0x80),
    'above the last code point': quoted(0xf5, 0x80, 0x80, 0x80),
    'UTF-16': Buffer.from('\ufeff{}', 'utf16le'),
    'Latin-1': Buffer.from('{"partner_user_id":"J\u00fcrgen"}', 'latin1'),
  }
  for (const [method, path] of WRITES) {
    for (const [name, bytes] of Object.entries(cases)) {
      const { status, body } = await service.call(method, path, bytes)
      assert.equal(status, 400, name)
      assert.deepEqual(body, { detail: 'Request body is not valid UTF-8.' }, name)
    }
  }
})

test('unknown fields are ignored, whatever they are called and hold', async (t) => {
  const service = await startService(t)
  const extra =
    `"__proto__":{"consent_accepted":false,"status":"disabled"},"constructor":null,"toString":1,` +
    `"":"","status":"disabled","partner_slug":"other","environment":"live","deep":${'['.repeat(5000)}${']'.repeat(5000)}`
  const send = (path: string, valid: object) =>
    service.call('POST', path, `${JSON.stringify(valid).slice(0, -1)},${extra}}`)
  const user = await send(USERS, USER)
  assert.equal(user.status, 200)
  assert.equal(user.body.status, 'linked')
  const bare = await service.call('POST', PLANS, {
    ...PLAN,
    partner_slug: 'other',
    environment: 'live',
    x: { y: 1 },
  })
  assert.equal(bare.status, 200)
  assert.deepEqual(Object.keys(bare.body), [
    'partner_user_id',
    'partner_plan_id',
    'amount_usd',
    'frequency',
    'smart_timing_enabled',
    'start_date',
    'status',
    'created_at',
    'updated_at',
  ])
})

test('a prototype is not a source of fields', async (t) => {
  const service = await startService(t)
  const hidden = (fields: object) => `{"__proto__":${JSON.stringify(fields)}}`
  const cases: [string, object, string[]][] = [
    [USERS, USER, ['partner_user_id', 'consent_accepted', 'consent_version', 'consent_timestamp']],
    [PLANS, PLAN, ['partner_user_id', 'partner_plan_id', 'amount_usd', 'frequency']],
    [confirmPath('exec_0'), { partner_order_id: 'o1', status: 'failed' }, ['partner_order_id', 'status']],
    [WEBHOOKS, { url: 'https://127.0.0.1/' }, ['url']],
  ]
  for (const [path, fields, lacking] of cases) {
    const { status, body } = await service.call('POST', path, hidden(fields))
    assert.equal(status, 422, path)
    assert.deepEqual(
      body.detail.map(({ loc }: { loc: string[] }) => loc[1]),
      lacking,
      path,
    )
  }
})

test('what is around the JSON does not matter: a mark, blanks, the content type', async (t) => {
  const service = await startService(t)
  const json = JSON.stringify(USER)
  for (const text of [json, `\ufeff${json}`, ` \r\n\t${json}\n `]) {
    for (const type of ['application/json', 'text/plain', 'application/json; charset=utf-8']) {
      const options = { headers: { 'content-type': type } }
      assert.equal((await service.call('POST', USERS, text, options)).status, 200, type)
    }
  }
})

test('of a name that is sent twice the last value counts, for the check and for what is done', async (t) => {
  const service = await startService(t)
  /** The valid body with one more member, before the others or behind them. */
  const twice = (body: object, member: string, place: 'first' | 'last'): string => {
    const inside = JSON.stringify(body).slice(1, -1)
    return place === 'first' ? `{${member},${inside}}` : `{${inside},${member}}`
  }
  const refusing = '"consent_accepted":false'
  assert.equal((await service.call('POST', USERS, twice(USER, refusing, 'last'))).status, 400)
  assert.equal((await service.call('POST', USERS, twice(USER, refusing, 'first'))).status, 200)

  const id = (await sendFirst(service, ['p'])).get('p') ?? ''
  const filled = fill('o1', '10.00')
  // The same name in other letters: it is the one that fields are checked by, and the one that is recorded.
  const failing = '"\\u0073tatus":"failed"'
  assert.equal((await service.call('POST', confirmPath(id), twice(filled, failing, 'last'))).status, 200)
  const report = { partner_order_id: 'o1', status: 'failed' }
  assert.equal((await succeed(service, 'POST', confirmPath(id), report)).replayed, true)
  const again = await service.call('POST', confirmPath(id), twice(filled, failing, 'first'))
  assert.equal(again.status, 409, 'it counts as filled now, and differs from what is recorded')

  const month = (query: string) => service.call('GET', `/partner/v1/billing/monthly?${query}`)
  assert.equal((await month('month=x&month=2026-01')).status, 200)
  assert.equal((await month('month=2026-01&month=x')).status, 422)
  assert.equal((await month('__proto__=x&constructor=y&month=2026-01')).status, 200)
  assert.equal((await month('__proto__[month]=2026-01')).status, 422)
})
