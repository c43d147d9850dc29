// Signatures: as another implementation computes them, and `verify` on those that do not match.

import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'node:test'
import { payloadOf } from '../../src/core/webhook.ts'
import { diagnose, isSignature, signatureOf } from '../../src/webhook/signature.ts'
import { deliveryTo, SECRET } from './stage.ts'

const BODY = payloadOf(deliveryTo('https://hook.example/'))
const GOOD = signatureOf(SECRET, BODY)
const HEX = GOOD.slice('sha256='.length)

test('a body and a secret of any bytes are signed as they are', () => {
  for (const body of [Buffer.alloc(0), Buffer.from([0, 255, 10, 13]), Buffer.from('{"a":"é"}')]) {
    const expected = createHmac('sha256', SECRET).update(body).digest('hex')
    assert.equal(signatureOf(SECRET, body), `sha256=${expected}`)
    assert.equal(isSignature(`sha256=${expected}`, SECRET, body), true)
  }
})

/** Anything but the exact header value is not a signature. */
const WRONG: Record<string, string> = {
  empty: '',
  'the prefix alone': 'sha256=',
  'no prefix': HEX,
  'one digit short': GOOD.slice(0, -1),
  'one digit more': `${GOOD}0`,
  'upper case': `sha256=${HEX.toUpperCase()}`,
  'another digit': GOOD.replace(/.$/, (digit) => (digit === '0' ? '1' : '0')),
  'another algorithm': `sha512=${createHmac('sha512', SECRET).update(BODY).digest('hex')}`,
  'of the same length in characters, not in bytes': `é${GOOD.slice(1)}`,
}

test('nothing but the exact header value is a signature', () => {
  assert.equal(isSignature(GOOD, SECRET, BODY), true)
  for (const [name, given] of Object.entries(WRONG))
    assert.equal(isSignature(given, SECRET, BODY), false, name)
})

const parsed = JSON.parse(BODY)
const sorted = Object.fromEntries(Object.entries(parsed).sort(([a], [b]) => (a < b ? -1 : 1)))
const spaced = BODY.replace(/([:,])/g, '$1 ')
const base64 = Buffer.from(HEX, 'hex').toString('base64')
const bareSecret = SECRET.replace('sse_whsec_', '')

type Mistake = { given?: string; secret?: string; body?: string; says: RegExp | null }
const MISTAKES: Record<string, Mistake> = {
  'the prefix is missing': { given: HEX, says: /lacks its "sha256=" prefix/ },
  'upper-case hex': { given: `sha256=${HEX.toUpperCase()}`, says: /upper-case hex/ },
  'space around the signature': { given: ` ${GOOD}\n`, says: /white space around the signature/ },
  'the whole header line': { given: `X-Service-Signature: ${GOOD}`, says: /name of its header before it/ },
  'base64 with prefix': { given: `sha256=${base64}`, says: /base64/ },
  'a line break added to the body': { body: `${BODY}\n`, says: /line break at its end that was not sent/ },
  'a line break taken from the body': {
    given: signatureOf(SECRET, `${BODY}\n`),
    says: /lost the line break at its end/,
  },
  'the body indented by two': { body: JSON.stringify(parsed, null, 2), says: /serialised again/ },
  'the body with spaces, as Python writes it': { body: spaced, says: /serialised again/ },
  'the body with its fields sorted, as Go writes a map': {
    body: JSON.stringify(sorted),
    says: /serialised again/,
  },
  'the secret without its prefix at the receiver': { secret: bareSecret, says: /"sse_whsec_" prefix/ },
  'the secret without its prefix at the signer': {
    given: signatureOf(bareSecret, BODY),
    says: /"sse_whsec_" prefix/,
  },
  'the secret with space around it': { secret: `  ${SECRET} `, says: /secret has white space/ },
  'another secret': { secret: 'sse_whsec_another', says: null },
  'another body': { body: '{"event":"executions.available"}', says: null },
  'a body that is not JSON': { body: 'count=3', says: null },
  'an empty body': { body: '', says: null },
  'no signature at all': { given: '', says: null },
}

test('each usual mistake is told from the others, and an unknown one is not guessed at', () => {
  for (const [name, { given = GOOD, secret = SECRET, body = BODY, says }] of Object.entries(MISTAKES)) {
    assert.equal(isSignature(given, secret, body), false, name)
    const diagnosis = diagnose(given, secret, Buffer.from(body))
    if (says === null) assert.equal(diagnosis, null, name)
    else assert.match(diagnosis ?? 'nothing', says, name)
  }
})
