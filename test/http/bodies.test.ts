// Forms of a body or a query: bytes, text, JSON, an object; then every field against every kind of bad value.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fill, PLAN, recordingLog, startService, USER } from '../support/service.ts'
import {
  confirmPath,
  type Json,
  link,
  PLANS,
  PRICE,
  plan,
  poll,
  sendFirst,
  succeed,
  tenantOf,
  USERS,
  userPath,
  WEBHOOKS,
} from './steps.ts'

type Refusal = readonly [type: string, msg: string]
/** Bad values of one field, each with its expected error. */
type BadValues = readonly (readonly [value: unknown, refusal: Refusal])[]

/** Stands for leaving the field out. */
const ABSENT = Symbol('absent')

const missing: Refusal = ['missing', 'Field required']
const notString: Refusal = ['string_type', 'Input should be a valid string']
const tooShort: Refusal = ['string_too_short', 'String should have at least 1 character']
const tooLong = (max: number): Refusal => ['string_too_long', `String should have at most ${max} characters`]
const notBool: Refusal = ['bool_type', 'Input should be a valid boolean']
const notOneOf = (spoken: string): Refusal => ['literal_error', `Input should be ${spoken}`]
const notDecimal: Refusal = ['decimal_parsing', 'Input should be a valid decimal']
const places: Refusal = ['decimal_max_places', 'Decimal input should have no more than 2 decimal places']
const above = (bound: string): Refusal => ['greater_than', `Input should be greater than ${bound}`]
const atLeast = (bound: string): Refusal => [
  'greater_than_equal',
  `Input should be greater than or equal to ${bound}`,
]
const atMost = (bound: string): Refusal => [
  'less_than_equal',
  `Input should be less than or equal to ${bound}`,
]
const notDatetime: Refusal = ['datetime_type', 'Input should be a valid datetime']
const noOffset: Refusal = ['timezone_aware', 'Input should have timezone info']
const badDate = (reason: string): Refusal => [
  'datetime_from_date_parsing',
  `Input should be a valid datetime or date, ${reason}`,
]
const notUrl: Refusal = ['url_parsing', 'Input should be a valid URL']
const notHttps: Refusal = ['url_scheme', "URL scheme should be 'https'"]
const urlTooLong: Refusal = ['url_too_long', 'URL should have at most 2083 characters']
const valueError = (text: string): Refusal => ['value_error', `Value error, ${text}`]
const controls = valueError('must not contain control characters')

const each = (values: readonly unknown[], refusal: Refusal): BadValues =>
  values.map((value) => [value, refusal] as const)

/** Every JSON type but text; null among them only where the field does not accept it. */
const NOT_TEXT = [0, 1, 1.5, true, false, [], ['x'], {}, { $ne: 1 }]

const badText = (max: number): BadValues => [
  ...each(NOT_TEXT, notString),
  ['x'.repeat(max + 1), tooLong(max)],
  ...each(['a\u0000b', 'a\nb', '\u001f', 'a\u007f', '\u0085', 'tab\t'], controls),
  ...each(['\ud800', 'x\udc00y'], valueError('must be valid Unicode text')),
]

/** Bad ids for the fields whose value a path has to carry. */
const badPathId: BadValues = each(['.', '..'], valueError('must not be "." or ".."'))

const badId: BadValues = [...badText(255), ['', tooShort], [null, notString], [ABSENT, missing]]

const badBool: BadValues = each(['yes', 'true', 'false', '', 1, 0, null, [], {}], notBool)

const badChoice = (spoken: string, similar: readonly string[]): BadValues =>
  each([...similar, '', 0, true, null, [], {}, 'toString', '__proto__'], notOneOf(spoken))

/** test/core/money.test.ts has more of them. */
const NO_DECIMALS = ['', ' 1', '1\n', '+1', '.5', '1.', '1,5', '1e3', '0x10', 'NaN', '\u0661', '1'.repeat(19)]

/** Numbers are refused too: a JSON number has been through a float somewhere. */
const badDecimal: BadValues = [...each(NO_DECIMALS, notDecimal), ...each(NOT_TEXT, notString)]

const badDatetime: BadValues = [
  ...each([...NOT_TEXT, 1767225600], notDatetime),
  ['', badDate('input is too short')],
  ['tomorrow, at noon', badDate('invalid date separator or digits')],
  ['2026-00-01', badDate('month value is outside expected range of 1-12')],
  ['2026-02-29', badDate('day value is outside expected range')],
  ['2026-01-01T24:00:00Z', badDate('hour value is outside expected range of 0-23')],
  ['2026-01-01T00:60:00Z', badDate('minute value is outside expected range of 0-59')],
  ['2026-01-01T00:00:60Z', badDate('second value is outside expected range of 0-59')],
  ...each(['2026-01-01T00:00:00+24:00', '2026-01-01T00:00:00+05'], badDate('invalid timezone')),
  ['2026-01-01T', badDate('invalid time separator or digits')],
  ...each(['2026-01-01T00:00:00', '2026-01-01 00:00:00.123'], noOffset),
]

const badUrl: BadValues = [
  ...each([null, 0, true, [], {}], notString),
  ...[
    ...['', 'x', '/hook', 'https://', 'https://a b/', 'https://127.0.0.1:99999/'],
    ...['https:127.0.0.1', 'https:/127.0.0.1', 'https:///127.0.0.1/hook', 'HTTPS:127.0.0.1'],
    ...['https:\\\\127.0.0.1', 'https:/\\127.0.0.1', 'https://127.0.0.1\\hook'],
    ...['https://127.0.0.1/a\\b', 'https://127.0.0.1/?a=\\', 'https://8.8.8.8\\@127.0.0.1/'],
    ...['https://127.0.0.1:0/', 'https://127.0.0.1:00', 'https://[::1]:0/'],
  ].map((value) => [value, notUrl] as const),
  // It is shown on an operator's terminal: it may contain nothing that a terminal interprets.
  ...['\u0000', '\u001b[31m', '\u009b2J', '\u202e', '\u2066', '\u200b', '\t', '\n', ' ', '\u00a0'].flatMap(
    (mark) =>
      each(
        [`https://127.0.0.1:9/a${mark}b`, `${mark}https://127.0.0.1:9/`, `https://127.0.0.1:9/${mark}`],
        notUrl,
      ),
  ),
  ...each(['http://127.0.0.1/', 'http:\\\\127.0.0.1', 'ftp://127.0.0.1/', 'javascript:alert(1)'], notHttps),
  [`https://127.0.0.1/${'x'.repeat(2083)}`, urlTooLong],
  ['https://user@127.0.0.1/', valueError('URL must not carry a user name or password')],
  ['https://:secret@127.0.0.1/', valueError('URL must not carry a user name or password')],
  ['https://127.0.0.1/#part', valueError('URL must not carry a fragment')],
  ['https://127.0.0.1/#', valueError('URL must not carry a fragment')],
]

const FAILED = { partner_order_id: 'o1', status: 'failed' }

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
  ['{"a":1} x', 8],
  ['{}{}', 2],
  ['{a:1}', 1],
  ['{"a":NaN}', 5],
  ['{"a":1', 6],
  ['{', 1],
  ['/* note */{}', 0],
]

/** Broken too; the exact place is a matter of taste, so only the error itself is required. */
const BROKEN_SOMEWHERE = [
  ...['{"a":"x', '{"a":"\n"}', '{"a":"\\x"}', '{"a":01}', '{"a":.5}', '\u0000', '\u00a0{}'],
  ...['['.repeat(60_000), '{"a":'.repeat(12_000), `[${'{"a":['.repeat(10_000)}`],
]

test('broken JSON is told with the offset where it breaks', async (t) => {
  const service = await startService(t)
  for (const [method, path] of WRITES) {
    for (const [text, offset] of BROKEN) {
      const { status, body } = await service.call(method, path, text)
      const detail = [{ type: 'json_invalid', loc: ['body', offset], msg: 'JSON decode error' }]
      assert.deepEqual([status, body.detail], [422, detail], text)
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
  const { log, entries } = recordingLog()
  const { url, key } = await startService(t, { log })
  const authorization = `Bearer ${key}`
  const post = async (body: string | Uint8Array<ArrayBuffer>, type?: string) => {
    const headers = { authorization, ...(type !== undefined && { 'content-type': type }) }
    const answer = await fetch(`${url}${USERS}`, { method: 'POST', headers, body })
    return { status: answer.status, text: await answer.text(), type: entries.at(-1)?.fields.content_type }
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
  // A JSON body is accepted under any content type, which its log line does not name.
  assert.deepEqual([(await post('{}', FORM)).status, entries.at(-1)?.fields.content_type], [422, undefined])
  assert.doesNotMatch(JSON.stringify(entries), /u-1|sse_/)
})

test('an empty body is missing, another JSON type is not an object', async (t) => {
  const service = await startService(t)
  const missing = [{ type: 'missing', loc: ['body'], msg: 'Field required' }]
  const msg = 'Input should be a valid dictionary or object to extract fields from'
  const noObject = [{ type: 'model_attributes_type', loc: ['body'], msg }]
  const cases = [
    ...[undefined, '', '   ', '\r\n\t '].map((text) => [text, missing] as const),
    ...['null', '[]', '[{}]', '"text"', '1', '-0.5e1', 'true', ' false '].map(
      (text) => [text, noObject] as const,
    ),
  ]
  for (const [method, path] of WRITES) {
    for (const [text, detail] of cases) {
      const { status, body } = await service.call(method, path, text)
      assert.deepEqual([status, body.detail], [422, detail], `${method} ${path} ${text}`)
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
      assert.deepEqual([status, body], [400, { detail: 'Request body is not valid UTF-8.' }], name)
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
  assert.deepEqual([user.status, user.body.status], [200, 'linked'])
  const unknown = { partner_slug: 'other', environment: 'live', x: { y: 1 } }
  assert.deepEqual(Object.keys(await succeed(service, 'POST', PLANS, { ...PLAN, ...unknown })), [
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
    [confirmPath('exec_0'), FAILED, ['partner_order_id', 'status']],
    [WEBHOOKS, { url: 'https://127.0.0.1/' }, ['url']],
  ]
  for (const [path, fields, lacking] of cases) {
    const { status, body } = await service.call('POST', path, hidden(fields))
    const named = body.detail.map(({ loc }: { loc: string[] }) => loc[1])
    assert.deepEqual([status, named], [422, lacking], path)
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
  /** The valid body with one more member, before the others or after them. */
  const twice = (body: object, member: string, place: 'first' | 'last'): string => {
    const inside = JSON.stringify(body).slice(1, -1)
    return place === 'first' ? `{${member},${inside}}` : `{${inside},${member}}`
  }
  const refusing = '"consent_accepted":false'
  assert.equal((await service.call('POST', USERS, twice(USER, refusing, 'last'))).status, 400)
  assert.equal((await service.call('POST', USERS, twice(USER, refusing, 'first'))).status, 200)

  const id = (await sendFirst(service, ['p'])).get('p') ?? ''
  const filled = fill('o1', '10.00')
  // An escaped spelling of a name: it is the one that fields are checked by, and the one that is recorded.
  const failing = '"\\u0073tatus":"failed"'
  assert.equal((await service.call('POST', confirmPath(id), twice(filled, failing, 'last'))).status, 200)
  assert.equal((await succeed(service, 'POST', confirmPath(id), FAILED)).replayed, true)
  const again = await service.call('POST', confirmPath(id), twice(filled, failing, 'first'))
  assert.equal(again.status, 409, 'it counts as filled now, and differs from what is recorded')

  const month = (query: string) => service.call('GET', `/partner/v1/billing/monthly?${query}`)
  assert.equal((await month('month=x&month=2026-01')).status, 200)
  assert.equal((await month('month=2026-01&month=x')).status, 422)
  assert.equal((await month('__proto__=x&constructor=y&month=2026-01')).status, 200)
  assert.equal((await month('__proto__[month]=2026-01')).status, 422)
})

// The 422 table: every field of every body against every kind of bad value, and none of them changes anything.

type Body = {
  name: string
  method: string
  path: string
  valid: Json
  /** In the order of the contract's field table, which is the order of errors. */
  fields: readonly (readonly [name: string, bad: BadValues])[]
}

const required: BadValues = [[ABSENT, missing]]
const FREQUENCY = "'daily', 'weekly' or 'bi-weekly'"
const PLAN_STATUS = "'active', 'paused' or 'cancelled'"
const REPORT_STATUS = "'filled', 'partial', 'failed' or 'cancelled'"

/** An amount of a fill: rounded to eight places before it is compared with a bound. */
const badPositive: BadValues = [
  ...badDecimal,
  [null, notString],
  [ABSENT, missing],
  ...each(['0', '-1', '-0', '0.000000004999999999', '0.000000005'], above('0')),
]

const FILL_FIELDS: Body['fields'] = [
  ['partner_order_id', badId],
  ['status', [...badChoice(REPORT_STATUS, ['Filled', 'pending', 'sent', 'filled ']), ...required]],
  ['executed_at', badDatetime],
  ['usd_amount', badPositive],
  [
    'btc_amount',
    [
      ...badPositive,
      ...each(['21000000.00000001', '21000000.000000005000000001', '999999999999999999'], atMost('21000000')),
    ],
  ],
  ['execution_price', [...badPositive, ['50000000.00000001', atMost('50000000')]]],
  [
    'partner_fee_usd',
    [...badDecimal, ...each(['-0.00000001', '-1'], atLeast('0')), ['1000000.00000001', atMost('1000000')]],
  ],
]

const NO_FILL_FIELDS: Body['fields'] = [
  ['partner_order_id', badId],
  ['executed_at', badDatetime],
  ['failure_reason', each([7, false, {}, ['no funds']], notString)],
]

const NOWHERE = confirmPath('exec_0')

const BODIES: readonly Body[] = [
  {
    name: 'POST /users',
    method: 'POST',
    path: USERS,
    valid: { ...USER, email: 'a@example.com', auth_provider: 'apple' },
    fields: [
      ['partner_user_id', [...badId, ...badPathId]],
      ['email', [...badText(320), ['', tooShort]]],
      ['auth_provider', [...badText(255), ['', tooShort]]],
      ['consent_accepted', [...badBool, ...required]],
      ['consent_version', [...badText(255), ['', tooShort], [null, notString], ...required]],
      ['consent_timestamp', [...badDatetime, [null, notDatetime], ...required]],
    ],
  },
  {
    name: 'PATCH /users/{id}',
    method: 'PATCH',
    path: userPath('kept'),
    valid: { status: 'disabled' },
    fields: [['status', [...badChoice("'disabled' or 'linked'", ['Disabled', 'active']), ...required]]],
  },
  {
    name: 'POST /plans',
    method: 'POST',
    path: PLANS,
    valid: { ...PLAN, smart_timing_enabled: true, start_date: '2026-01-05', status: 'active' },
    fields: [
      ['partner_user_id', [...badId, ...badPathId]],
      ['partner_plan_id', badId],
      [
        'amount_usd',
        [
          ...badDecimal,
          [null, notString],
          ...required,
          ...each(['1.001', '0.999'], places),
          ...each(['0.99', '0', '-60.00'], atLeast('1.00')),
          ...each(['1000000.01', '999999999999999999.99'], atMost('1000000.00')),
        ],
      ],
      ['frequency', [...badChoice(FREQUENCY, ['Daily', 'monthly', 'biweekly', ' daily']), ...required]],
      ['smart_timing_enabled', badBool],
      [
        'start_date',
        [
          ...badDatetime,
          ...['9999-12-31T23:59:59.999Z', '9999-12-18', '9999-12-31T00:00:00-01:00'].map(
            (value) => [value, valueError('windows must end before the year 10000')] as const,
          ),
        ],
      ],
      ['status', badChoice(PLAN_STATUS, ['ACTIVE', 'canceled', 'linked'])],
    ],
  },
  { name: 'confirm filled', method: 'POST', path: NOWHERE, valid: fill('o1', '10.00'), fields: FILL_FIELDS },
  {
    name: 'confirm partial',
    method: 'POST',
    path: NOWHERE,
    valid: fill('o1', '10.00', 'partial'),
    fields: FILL_FIELDS.filter(([name]) => name !== 'status'),
  },
  { name: 'confirm failed', method: 'POST', path: NOWHERE, valid: FAILED, fields: NO_FILL_FIELDS },
  {
    name: 'POST /webhooks',
    method: 'POST',
    path: WEBHOOKS,
    valid: { url: 'https://127.0.0.1/hook' },
    fields: [['url', [...badUrl, ...required]]],
  },
]

function spoil(valid: Json, field: string, value: unknown): Json {
  const { [field]: _, ...rest } = valid
  return value === ABSENT ? rest : { ...rest, [field]: value }
}

test('each bad value of each field is refused by name and nothing changes', async (t) => {
  const service = await startService(t)
  await link(service, 'kept')
  await plan(service, 'kept', 'kept')
  await service.tick(PRICE)
  const tenant = await tenantOf(service)
  const content = async () => ({
    plans: await service.store.findPlans('kept'),
    counts: [await service.store.takeStock(service.now()), await service.store.readBacklog(service.now())],
    webhook: (await service.call('GET', WEBHOOKS)).body,
    users: await service.store.listUsers(tenant, { after: null, limit: 10 }),
  })
  const before = await content()
  for (const { name, method, path, valid, fields } of BODIES) {
    for (const [field, values] of fields) {
      await Promise.all(
        values.map(async ([value, [type, msg]]) => {
          const told = `${name}: ${field} = ${value === ABSENT ? 'left out' : JSON.stringify(value)?.slice(0, 60)}`
          const { status, body } = await service.call(method, path, spoil(valid, field, value))
          // Exactly these members: the input is never sent back.
          assert.deepEqual([status, body], [422, { detail: [{ type, loc: ['body', field], msg }] }], told)
        }),
      )
    }
  }
  assert.deepEqual(await content(), before)
  assert.equal([...(await poll(service)).values()].flat().length, 1)
})

test('all errors of a body come at once, in the order of the field table', async (t) => {
  const service = await startService(t)
  for (const { name, method, path, valid, fields } of BODIES) {
    const wrong = fields.filter(([field]) => !(field === 'status' && path === NOWHERE))
    // Sent in reverse: the order of the errors is not the order of the request.
    const spoiled = Object.fromEntries(wrong.map(([field]) => [field, 4711] as const).reverse())
    const sent = { ...spoiled, ...(path === NOWHERE && { status: valid.status }) }
    const { status, body } = await service.call(method, path, sent)
    const places = body.detail.map(({ loc }: { loc: string[] }) => loc)
    assert.deepEqual([status, places], [422, wrong.map(([field]) => ['body', field])], name)
    assert.ok(!JSON.stringify(body).includes('4711'), `${name} echoes its input`)
  }
})

// Refusals of the two billing endpoints, with every field error at once.

const MONTHLY = '/partner/v1/billing/monthly'
const MONTHLY_USERS = `${MONTHLY}/users`

const inQuery = (name: string, [type, msg]: Refusal) => ({ type, loc: ['query', name], msg })
const MONTH_MISSING = inQuery('month', missing)
const MONTH_WRONG = inQuery('month', valueError('month must be written YYYY-MM'))
const NOT_INTEGER_TEXT = 'Input should be a valid integer, unable to parse string as an integer'
const NOT_AN_INTEGER = inQuery('limit', ['int_parsing', NOT_INTEGER_TEXT])
const TOO_SMALL = inQuery('limit', atLeast('1'))
const TOO_LARGE = inQuery('limit', atMost('1000'))
const CURSOR_WRONG = inQuery('cursor', valueError('cursor must be the next_cursor of a page'))

type RefusedQuery = [path: string, detail: object[]]
const ofUsers = (name: string, values: readonly string[], detail: object) =>
  values.map((value): RefusedQuery => [`${MONTHLY_USERS}?month=2026-01&${name}=${value}`, [detail]])

const REFUSED_QUERIES: RefusedQuery[] = [
  ...[MONTHLY, MONTHLY_USERS].flatMap((path): RefusedQuery[] => [
    [path, [MONTH_MISSING]],
    ...['', '2026-1', '2026-13'].map((month): RefusedQuery => [`${path}?month=${month}`, [MONTH_WRONG]]),
  ]),
  ...ofUsers('limit', ['', 'x', '1.5', '1e2', '0x1', ' 1', 'NaN'], NOT_AN_INTEGER),
  ...ofUsers('limit', ['0', '-1', '-99999999999999999999'], TOO_SMALL),
  ...ofUsers('limit', ['1001', '99999999999999999999'], TOO_LARGE),
  ...ofUsers('cursor', ['', '!', 'YQ==', 'YR', '_w', 'YQ%00'], CURSOR_WRONG),
  ...ofUsers('cursor', [Buffer.from('user-1').toString('base64url')], CURSOR_WRONG),
  [`${MONTHLY_USERS}?month=x&limit=0&cursor=!`, [MONTH_WRONG, TOO_SMALL, CURSOR_WRONG]],
]

test('what is refused, with every field error at once', async (t) => {
  const service = await startService(t)
  for (const [path, detail] of REFUSED_QUERIES) {
    const answer = await service.call('GET', path)
    assert.deepEqual([answer.status, answer.body], [422, { detail }], path)
  }
})
