// The sample partners as processes, in both environments of one partner with the same plans.

import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { link, PRICE, plan } from '../http/steps.ts'
import { rowsOf } from '../support/database.ts'
import { ordersIn, SAMPLES, type Sample, type Stage, setStage, until } from './stage.ts'

const ENVIRONMENTS = ['test', 'live'] as const
/** The key that the service issues in both environments. */
const SHARED = 'a:2026-01-05T00:00:00.000Z:0'

/** A partner with a plan of the same name and start in either environment, whose first tranches are due. */
async function begin(t: TestContext, sample: Sample): Promise<{ stage: Stage; keys: string[] }> {
  const stage = await setStage(t, sample)
  const { service } = stage
  const keys = [service.key, await service.issueKey('acme', 'live')]
  for (const key of keys) {
    await link(service, 'a', { key })
    await plan(service, 'a', 'a', { start_date: '2026-01-05' }, { key })
  }
  await service.tick(PRICE)
  return { stage, keys }
}

/** Runs a partner with each of the keys until it has confirmed its due instructions; returns the records for each. */
async function buy(t: TestContext, { stage, keys }: Awaited<ReturnType<typeof begin>>) {
  const rows = await rowsOf(t, stage.service.file)
  const trades = () =>
    rows(
      'select environment, partner_order_id as "order" from trades join tenants using (tenant_id) order by environment desc',
    )
  for (const [i, KEY] of keys.entries()) {
    const partner = stage.launch({ KEY })
    for (const end = performance.now() + 30_000; (await trades()).length <= i; await pause(20))
      assert.ok(performance.now() < end && !partner.hasEnded(), partner.out() + partner.err())
    partner.child.kill('SIGKILL')
    await partner.ended
  }
  return trades()
}

for (const sample of SAMPLES)
  test(`the ${sample.language} partner has a journal and a paper venue for each environment, and takes no others`, async (t) => {
    const begun = await begin(t, sample)
    const trades = await buy(t, begun)
    const { stage, keys } = begun
    for (const [i, environment] of ENVIRONMENTS.entries()) {
      assert.ok(existsSync(join(stage.folder, sample.journal(environment))))
      const orders = ordersIn(join(stage.folder, sample.book(environment)))
      assert.deepEqual(
        orders.map(({ key, order, asked }) => ({ key, order, asked })),
        [{ key: `${environment}:${SHARED}`, order: trades[i]?.order, asked: 1 }],
      )
    }
    assert.notEqual(trades[0]?.order, trades[1]?.order)

    const refused = async (env: Record<string, string>) => {
      const partner = stage.launch(env)
      await until(partner.hasEnded, partner.err)
      assert.equal(await partner.ended, 1)
      return partner.err()
    }
    const [test = '', live = ''] = keys
    assert.match(
      await refused({ KEY: live, JOURNAL: sample.journal('test') }),
      /^journal-test(\.db)? has purchases of another environment than live\n$/m,
    )
    assert.match(
      await refused({ KEY: 'none' }),
      /^KEY has to be an API key, sse_test_\S+ or sse_live_\S+\n$/m,
    )
    // The message about a mistyped key is a sentence, not a stack trace.
    const mistyped = `${test.slice(0, -1)}${test.endsWith('a') ? 'b' : 'a'}`
    assert.match(await refused({ KEY: mistyped }), /^poll: 401 [^\n]+\n$/)
  })
