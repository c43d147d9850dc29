// The 422 table: every field of every body against every kind of bad value, and nothing changed by any of it.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fill, PLAN, startService, USER } from '../support/service.ts'
import {
  ABSENT,
  above,
  atLeast,
  atMost,
  type BadValues,
  badBool,
  badChoice,
  badDatetime,
  badDecimal,
  badId,
  badPathId,
  badText,
  badUrl,
  missing,
  notDatetime,
  notString,
  places,
  tooShort,
  valueError,
} from './refusals.ts'
import { confirmPath, type Json, link, PLANS, PRICE, plan, poll, USERS, userPath, WEBHOOKS } from './steps.ts'

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
  ['0', above('0')],
  ['-1', above('0')],
  ['-0', above('0')],
  ['0.000000004999999999', above('0')],
  ['0.000000005', above('0')],
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
      ['21000000.00000001', atMost('21000000')],
      ['21000000.000000005000000001', atMost('21000000')],
      ['999999999999999999', atMost('21000000')],
    ],
  ],
  ['execution_price', [...badPositive, ['50000000.00000001', atMost('50000000')]]],
  [
    'partner_fee_usd',
    [
      ...badDecimal,
      ['-0.00000001', atLeast('0')],
      ['-1', atLeast('0')],
      ['1000000.00000001', atMost('1000000')],
    ],
  ],
]

const NO_FILL_FIELDS: Body['fields'] = [
  ['partner_order_id', badId],
  ['executed_at', badDatetime],
  [
    'failure_reason',
    [
      [7, notString],
      [false, notString],
      [{}, notString],
      [['no funds'], notString],
    ],
  ],
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
          ['1.001', places],
          ['0.999', places],
          ['0.99', atLeast('1.00')],
          ['0', atLeast('1.00')],
          ['-60.00', atLeast('1.00')],
          ['1000000.01', atMost('1000000.00')],
          ['999999999999999999.99', atMost('1000000.00')],
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
  {
    name: 'confirm failed',
    method: 'POST',
    path: NOWHERE,
    valid: { partner_order_id: 'o1', status: 'failed' },
    fields: NO_FILL_FIELDS,
  },
  {
    name: 'confirm cancelled',
    method: 'POST',
    path: NOWHERE,
    valid: { partner_order_id: 'o1', status: 'cancelled' },
    fields: NO_FILL_FIELDS,
  },
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
  const tenant = await service.store.findTenant('acme', 'test')
  assert.ok(tenant)
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
          assert.deepEqual(body, { detail: [{ type, loc: ['body', field], msg }] }, told)
          assert.equal(status, 422, told)
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
    // Sent backwards: the order of the answer is not the order of the request.
    const spoiled = Object.fromEntries(wrong.map(([field]) => [field, 4711] as const).reverse())
    const sent = { ...spoiled, ...(path === NOWHERE && { status: valid.status }) }
    const { status, body } = await service.call(method, path, sent)
    assert.equal(status, 422, name)
    assert.deepEqual(
      body.detail.map(({ loc }: { loc: string[] }) => loc),
      wrong.map(([field]) => ['body', field]),
      name,
    )
    assert.ok(!JSON.stringify(body).includes('4711'), `${name} echoes its input`)
  }
})

const MISSING: readonly (readonly [method: string, path: string, body: Json, fields: readonly string[]])[] = [
  ['POST', USERS, {}, ['partner_user_id', 'consent_accepted', 'consent_version', 'consent_timestamp']],
  ['PATCH', userPath('u'), {}, ['status']],
  ['POST', PLANS, {}, ['partner_user_id', 'partner_plan_id', 'amount_usd', 'frequency']],
  ['POST', WEBHOOKS, {}, ['url']],
  ['POST', NOWHERE, {}, ['partner_order_id', 'status']],
  [
    'POST',
    NOWHERE,
    { status: 'filled' },
    ['partner_order_id', 'usd_amount', 'btc_amount', 'execution_price'],
  ],
  [
    'POST',
    NOWHERE,
    { status: 'partial' },
    ['partner_order_id', 'usd_amount', 'btc_amount', 'execution_price'],
  ],
  ['POST', NOWHERE, { status: 'failed' }, ['partner_order_id']],
  ['POST', NOWHERE, { status: 'cancelled' }, ['partner_order_id']],
]

test('an empty object is told every field it lacks', async (t) => {
  const service = await startService(t)
  for (const [method, path, body, fields] of MISSING) {
    const answer = await service.call(method, path, body)
    assert.equal(answer.status, 422)
    assert.deepEqual(
      answer.body.detail,
      fields.map((field) => ({ type: 'missing', loc: ['body', field], msg: 'Field required' })),
    )
  }
})
