// What --db names: an address that cannot be used is refused for what is wrong with it.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { refuseNoAddress } from '../../src/store/address.ts'

const SEVERAL = /names several hosts\. Name one: the primary, or a proxy that knows which that is\.$/
const PORT = /has a port that is not a number from 1 to 65535\.$/
const PASSWORD = /in its password, a character that is not a letter or digit is written as %XX/

const CASES: [string, RegExp][] = [
  ['postgres://a,b/db', SEVERAL],
  ['postgres://u:p@a:5432,b:5432/db?target_session_attrs=read-write', SEVERAL],
  ['postgres://u@h/db?host=a,b', SEVERAL],
  ['postgres://u:p@h:99999/db', PORT],
  ['postgres://u:p@h:abc/db', PORT],
  ['postgres://h:0x1/db', PORT],
  ['postgres://u:p@[::1]:70000/db', PORT],
  ['postgres://u:p/w@h/db', PASSWORD],
  ['postgres://u:p,q/w@h/db', PASSWORD],
  ['postgres://u:1/2@h:99999/db', PASSWORD],
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
])
  test(`${address} may be one`, () => refuseNoAddress(address))
