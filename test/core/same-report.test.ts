// Reports: when two say the same, and the text whose digest is kept beside every trade.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { btc, price, usd } from '../../src/core/money.ts'
import type { Instant } from '../../src/core/time.ts'
import type { NoFill, Report } from '../../src/core/trade.ts'
import { reportFingerprint, sameReport } from '../../src/core/trade.ts'

const FILL: Report = {
  status: 'filled',
  partnerOrderId: 'o1',
  executedAt: 1_767_571_200_000 as Instant,
  usdAmount: usd('10'),
  btcAmount: btc('0.001'),
  executionPrice: price('60000'),
  partnerFee: null,
}
const failed = (failureReason: string | null): NoFill => ({
  status: 'failed',
  partnerOrderId: 'o1',
  executedAt: null,
  failureReason,
})

/** Written down forever: databases hold digests of these texts, and `check` makes them anew. */
const FINGERPRINTS: [Report, string][] = [
  [FILL, '["filled","o1",1767571200000,"1000000000","100000","6000000000000",null]'],
  [
    { ...FILL, status: 'partial', executedAt: null, partnerFee: usd('0.05') },
    '["partial","o1",null,"1000000000","100000","6000000000000","5000000"]',
  ],
  [failed(null), '["failed","o1",null,null]'],
  [failed(''), '["failed","o1",null,""]'],
  [{ ...failed('no "funds"\n'), status: 'cancelled' }, '["cancelled","o1",null,"no \\"funds\\"\\n"]'],
]

test('the text that a digest is made of never changes', () => {
  for (const [report, text] of FINGERPRINTS) assert.equal(reportFingerprint(report), text)
})

test('an empty reason says what none says, and every other difference counts', () => {
  assert.ok(sameReport(failed(''), failed(null)))
  assert.ok(sameReport(failed(null), failed('')))
  assert.ok(!sameReport(failed(' '), failed(null)))
  assert.ok(sameReport(FILL, { ...FILL }))
  for (const [a] of FINGERPRINTS.slice(0, 3))
    for (const [b] of FINGERPRINTS.slice(0, 3)) assert.equal(sameReport(a, b), a === b)
})
