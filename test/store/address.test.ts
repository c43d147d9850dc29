// Addresses of --db: an unusable one is refused with the reason.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type AddressValues, addressValues, refuseNoAddress, shownAddress } from '../../src/store/address.ts'

const SEVERAL = /names several hosts\. Name one: the primary, or a proxy that knows which that is\.$/
const PORT = /has a port that is not a number from 1 to 65535\.$/
const NEITHER = /begins with postgres:\/\/, and this is neither/
const PASSWORD = /in its password, a character that is not a letter or digit is written as %XX/

const CASES: [string, RegExp][] = [
  ['postgres://a,b/db', SEVERAL],
  ['postgres://u:p@a:5432,b:5432/db?target_session_attrs=read-write', SEVERAL],
  ['postgres://u@h/db?host=a,b', SEVERAL],
  ['postgres://u:p@h:99999/db', PORT],
  ['postgres://h:0x1/db', PORT],
  ['postgres://u:p/w@h/db', PASSWORD],
  ['postgres://u:p,q/w@h/db', PASSWORD],
  ['postgres://u:1/2@h:99999/db', PASSWORD],
  ['postgres://h:0/db', PORT],
  ['postgres://h/db?port=0', PORT],
  ['postgres://h/db?port=99999', PORT],
  ['postgres://u:p%@@h/db', PASSWORD],
  ['postgres://u:100%25%@h/db', PASSWORD],
  ['postgres://u:%zz@h/db', PASSWORD],
  ['postgres://u:%ff@h/db', PASSWORD],
  ['postgres://u:p q@h/db', PASSWORD],
  ['postgres://h%00x/db', PASSWORD],
  ['postgres://u:p#q@h/db', PASSWORD],
  ['postgres://u:p?q@h/db', PASSWORD],
  ['postgres://u@::1/db', /has an IPv6 address without brackets: write \[::1\]\.$/],
  ['postgres://h/db?sslmode=', /sslmode that is not accepted/],
  ['postgres://h/db?sslmode=verify_full', /has an sslmode that is not accepted\. These are: disable, /],
  [
    'postgres://h/db?SSLMODE=require',
    /has a parameter that is not accepted \(SSLMODE\): leave it out\. These are accepted: /,
  ],
  ['postgres://h/db?ssl=true', /not accepted \(ssl\)/],
  ['postgres://h/db?password=a&b', /has a parameter that is not accepted: leave it out/],
  ['postgres:///x?host=/run&PASSWORD=pw', /has a parameter that is not accepted: leave it out/],
  ['postgres://h/x#pw', PASSWORD],
  ...[
    'jdbc:postgresql://h/x?user=t&password=pw',
    'tranche:pw@host:5432/db',
    'tranche:p/w@host/db',
    '//tranche:pw@host/x',
    '//tranche@host/x',
    'postgres//tranche:pw@h/x',
    'postgres:/tranche:pw@h/x',
    'socket:/run/postgresql?password=pw',
    '/run/postgresql?options=pw',
    'host=/run dbname=x password=pw',
    'dbname = x',
    "'host=/run",
    'tranche.db;passwd=pw',
  ].map((address): [string, RegExp] => [address, NEITHER]),
]

for (const [address, says] of CASES)
  test(`${address} is refused`, () => {
    assert.throws(
      () => refuseNoAddress(address),
      (error: Error) => {
        assert.match(error.message, says)
        return !error.message.includes(address)
      },
    )
  })

for (const address of [
  'postgres://u:p,q@h/db',
  'postgres://u:p@[::1]:5432/db',
  'postgres://h',
  'a,b:99999.db',
  './tranche:pw@host',
  '/data/2026-11-22T20:50@host.db',
  'C:\\data\\tranche.db',
  'user.db',
  'me@home.db',
  './user=me.db',
  'a=b.db',
  'what?.db',
  'postgres://',
  'postgres://u@/db?host=/run/postgresql',
  'postgres://u:p%25%40%2F@h:/db',
  'postgres:///db?host=/run/postgresql&port=5433&user=u&options=-c%20work_mem%3D1MB',
  'postgresql://%2Frun%2Fpostgresql/db',
])
  test(`${address} may be one`, () => refuseNoAddress(address))

const SHOWN: [string, string][] = [
  ['postgres://u:p@/db?host=/run', 'postgres://u:***@/db?host=/run'],
  ['postgres://u:@h/db', 'postgres://u:@h/db'],
  ['postgres://u:p%@@h/db', 'postgres://u:***@h/db'],
  ['postgres://h/db?password=a&b', 'postgres://h/db?password=***&***'],
  ['postgres://h/db?sslmode=require&passWord=a', 'postgres://h/db?sslmode=require&***'],
  ['postgres://h/db?pass%77ord=a', 'postgres://h/db?***'],
  ['postgres://h/db?sslpassword=a', 'postgres://h/db?***'],
  ['postgres://u:p@[::1]:5433/db', 'postgres://u:***@[::1]:5433/db'],
  ['postgres://h/db?application_name=x', 'postgres://h/db?application_name=x'],
  ['postgres://h/db#pw', 'postgres://***'],
  ['jdbc:postgresql://h/x?user=t&password=pw', 'postgres://***'],
  ['tranche:pw@host:5432/db', 'postgres://***'],
  ['postgres//tranche:pw@h/x', 'postgres://***'],
  ['/run/postgresql?options=pw', 'postgres://***'],
]

for (const [address, shown] of SHOWN)
  test(`${address} is shown without its password`, () => assert.equal(shownAddress(address), shown))

const VALUES: [string, Partial<AddressValues>][] = [
  [
    'postgres://u:p%25%40%2f+@h:5433/d%40b',
    { user: 'u', password: 'p%@/+', host: 'h', port: '5433', dbname: 'd@b' },
  ],
  ['postgres://u:a:b@[::1]:5433/db', { user: 'u', password: 'a:b', host: '::1', port: '5433', dbname: 'db' }],
  ['postgres://%2Frun%2Fpg/db', { host: '/run/pg', dbname: 'db' }],
  ['postgres://u@/db?host=/run/pg', { user: 'u', host: '/run/pg', dbname: 'db' }],
  [
    'postgres:///?host=/run&dbname=d&user=u&password=a%26b',
    { host: '/run', dbname: 'd', user: 'u', password: 'a&b' },
  ],
  ['postgres://u:@h:/', { user: 'u', host: 'h' }],
  ['postgres://h/?options=-c%20a%3Db&sslmode=disable', { host: 'h', options: '-c a=b', sslmode: 'disable' }],
]

for (const [address, values] of VALUES)
  test(`${address} is read as PostgreSQL's own programs read it`, () => {
    const said = Object.entries(addressValues(address)).filter(([, value]) => value !== null)
    assert.deepEqual(Object.fromEntries(said), values)
  })

test('a file whose name the driver would change is refused, and so is one that keeps nothing', () => {
  for (const name of [
    't.db\r',
    ' t.db',
    't.db ',
    'a/ t.db',
    'a /t.db\n',
    '\u00a0t.db',
    'a\tb.db',
    ':memory:',
  ])
    assert.throws(() => refuseNoAddress(name), { code: 'usage' }, JSON.stringify(name))
  for (const name of ['t.db', 'a b/t c.db', './:memory:', 'ä.db']) refuseNoAddress(name)
})
