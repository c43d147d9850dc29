// Failure reasons: a report of nothing bought is recorded whatever its reason holds, so that no reservation waits for
// a better wording.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { confirm } from '../../src/core/confirmation.ts'
import type { Report } from '../../src/core/trade.ts'
import { DESCRIPTION } from '../openapi/described.ts'
import { type Service, startService } from '../support/service.ts'
import { assertSound, confirmPath, type Json, ledgerOf, sendFirst, succeed, windowsOf } from './steps.ts'

const ROCKET = '\u{1f680}'

const REASONS: readonly (readonly [what: string, sent: string, kept: string])[] = [
  ['as long as may be', 'x'.repeat(2000), 'x'.repeat(2000)],
  ['as long as may be, in characters of two units', ROCKET.repeat(2000), ROCKET.repeat(2000)],
  ['one too long', 'x'.repeat(2001), `${'x'.repeat(1999)}…`],
  ['far too long', 'y'.repeat(60_000), `${'y'.repeat(1999)}…`],
  ['cut where half a character would be left', ROCKET.repeat(2001), `${ROCKET.repeat(1999)}…`],
  ['a null byte', 'a\u0000b', 'a b'],
  ['what a terminal obeys', '\u001b[31mred\u009b0m\u007f', ' [31mred 0m '],
  ['lines and tabs', 'first\r\n\tsecond', 'first\r\n\tsecond'],
  ['half a character', 'a\ud800b\udc00', 'a\ufffdb\ufffd'],
  ['other scripts', 'Jürgen ne peut pas; 資金不足', 'Jürgen ne peut pas; 資金不足'],
]

test('the API description says what becomes of it', () => {
  const { properties } = DESCRIPTION.components.schemas.NoFillConfirmation as {
    properties: { failure_reason: { description: string } }
  }
  const { description } = properties.failure_reason
  assert.match(description, /2000 characters/)
  assert.match(description, /line breaks and tabs stay, other control characters become spaces/)
})

async function reasonOf(service: Service, id: string): Promise<string | null | undefined> {
  const report = (await service.store.findExecution(id))?.trade?.report
  return report && 'failureReason' in report ? report.failureReason : undefined
}

test('a reason too long is cut and marked, and what cannot be shown is replaced', async (t) => {
  const service = await startService(t)
  const ids = await sendFirst(
    service,
    REASONS.map(([what]) => what),
  )
  for (const [row, [what, sent, kept]] of REASONS.entries()) {
    const id = ids.get(what) ?? ''
    const status = row % 2 === 0 ? 'failed' : 'cancelled'
    const report = { partner_order_id: what, status, failure_reason: sent }
    assert.equal((await succeed(service, 'POST', confirmPath(id), report)).status, status, what)
    assert.equal(await reasonOf(service, id), kept, what)
    assert.deepEqual((await windowsOf(service, what)).map(ledgerOf), ['0.00 0.00 0.00 open'], what)
    for (const again of [sent, kept]) {
      const answer = await succeed(service, 'POST', confirmPath(id), { ...report, failure_reason: again })
      assert.equal(answer.replayed, true, what)
    }
  }
  await assertSound(service)
})

/** The ways to give no reason. */
const NONE: readonly Json[] = [{}, { failure_reason: null }, { failure_reason: '' }]

test('no reason is one confirmation, however it is sent', async (t) => {
  const service = await startService(t)
  const ids = [...(await sendFirst(service, ['left out', 'null', 'empty'])).values()]
  for (const [row, first] of NONE.entries()) {
    const path = confirmPath(ids[row] ?? '')
    const report = { partner_order_id: `order-${row}`, status: 'failed' }
    assert.equal('replayed' in (await succeed(service, 'POST', path, { ...report, ...first })), false)
    assert.equal(await reasonOf(service, ids[row] ?? ''), null)
    for (const again of NONE)
      assert.equal((await succeed(service, 'POST', path, { ...report, ...again })).replayed, true)
    const other = { ...report, failure_reason: ' ' }
    assert.equal((await service.call('POST', path, other)).status, 409)
  }
  await assertSound(service)
})

test('an empty reason that an earlier version recorded is not a reason, and its row is whole', async (t) => {
  const service = await startService(t)
  const id = (await sendFirst(service, ['p'])).get('p') ?? ''
  const tenant = await service.store.findTenant('acme', 'test')
  assert.ok(tenant)
  const report: Report = { status: 'failed', partnerOrderId: 'o', executedAt: null, failureReason: '' }
  const ids = { executionId: id, partnerOrderId: 'o' }
  await service.store.confirmExecution(tenant, ids, (seen, now) => confirm(seen, report, now))
  assert.equal(await reasonOf(service, id), '')
  for (const again of NONE) {
    const sent = { partner_order_id: 'o', status: 'failed', ...again }
    assert.equal((await succeed(service, 'POST', confirmPath(id), sent)).replayed, true)
  }
  await assertSound(service)
})
