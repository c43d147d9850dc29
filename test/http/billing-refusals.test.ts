// What the two billing endpoints refuse, with every field error at once.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startService } from '../support/service.ts'

const MONTHLY = '/partner/v1/billing/monthly'
const USERS = `${MONTHLY}/users`

const MONTH_WRONG = {
  type: 'value_error',
  loc: ['query', 'month'],
  msg: 'Value error, month must be written YYYY-MM',
}
const LIMIT = (type: string, msg: string) => ({ type, loc: ['query', 'limit'], msg })
const NOT_AN_INTEGER = LIMIT(
  'int_parsing',
  'Input should be a valid integer, unable to parse string as an integer',
)
const TOO_SMALL = LIMIT('greater_than_equal', 'Input should be greater than or equal to 1')
const TOO_LARGE = LIMIT('less_than_equal', 'Input should be less than or equal to 1000')
const CURSOR_WRONG = {
  type: 'value_error',
  loc: ['query', 'cursor'],
  msg: 'Value error, cursor is not one of a page',
}

const REFUSED: [path: string, detail: object[]][] = [
  [MONTHLY, [{ type: 'missing', loc: ['query', 'month'], msg: 'Field required' }]],
  [USERS, [{ type: 'missing', loc: ['query', 'month'], msg: 'Field required' }]],
  ...[
    '',
    '2026',
    '2026-1',
    '2026-00',
    '2026-13',
    '2026-01-01',
    '202601',
    ' 2026-01',
    '2026-01%0A',
    '0000-12',
    '10000-01',
    'x',
  ].flatMap((month): [string, object[]][] => [
    [`${MONTHLY}?month=${month}`, [MONTH_WRONG]],
    [`${USERS}?month=${month}`, [MONTH_WRONG]],
  ]),
  ...['', 'x', '1.5', '1e2', '0x1', ' 1', 'NaN'].map((limit): [string, object[]] => [
    `${USERS}?month=2026-01&limit=${limit}`,
    [NOT_AN_INTEGER],
  ]),
  ...['0', '-1', '-99999999999999999999'].map((limit): [string, object[]] => [
    `${USERS}?month=2026-01&limit=${limit}`,
    [TOO_SMALL],
  ]),
  ...['1001', '99999999999999999999'].map((limit): [string, object[]] => [
    `${USERS}?month=2026-01&limit=${limit}`,
    [TOO_LARGE],
  ]),
  ...['', '!', 'YQ==', 'YR', '_w', 'YQ%00', Buffer.from('user-1').toString('base64url')].map(
    (cursor): [string, object[]] => [`${USERS}?month=2026-01&cursor=${cursor}`, [CURSOR_WRONG]],
  ),
  [`${USERS}?month=x&limit=0&cursor=!`, [MONTH_WRONG, TOO_SMALL, CURSOR_WRONG]],
]

test('what is refused, with every field error at once', async (t) => {
  const service = await startService(t)
  for (const [path, detail] of REFUSED) {
    const answer = await service.call('GET', path)
    assert.deepEqual([answer.status, answer.body], [422, { detail }], path)
  }
})
