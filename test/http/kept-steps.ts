// What the tests of kept reports ask: what is kept, how many wait, what a month comes to.

import assert from 'node:assert/strict'
import { quoted } from '../../src/core/text.ts'
import { DAY_MS } from '../../src/core/time.ts'
import { shell } from '../levers/steps.ts'
import type { Service } from '../support/service.ts'
import { type Json, PRICE, succeed } from './steps.ts'

export const lateFills = async (service: Service): Promise<Json[]> =>
  JSON.parse(await shell(service, ['--json', 'execution', 'late-fills']))

/** How many reports wait for a decision, as status and check say. */
export async function waiting(service: Service): Promise<[status: number, check: number]> {
  const status = JSON.parse(await shell(service, ['--json', 'status']))
  const { findings } = JSON.parse(await shell(service, ['--json', 'check']))
  const found = findings.find(({ kind }: Json) => kind === 'late_fills')
  assert.equal(found?.mend, found && `tranche --db ${quoted(service.file)} execution late-fills`)
  return [status.late_fills_undecided, Number(/^\d+/.exec(found?.message ?? '0')?.[0])]
}

/** Fires one more tranche, and hands it out to nobody. */
export async function nextPending(service: Service): Promise<string> {
  service.advance(DAY_MS - 60_000)
  await service.tick(PRICE)
  const filter = { slug: null, environment: null, status: 'pending', stuck: false } as const
  const [pending] = await service.store.listExecutions(filter, { after: null, limit: 1 })
  return pending?.executionId ?? ''
}

/** What a month of the service adds up to. */
export const billed = async (service: Service) => {
  const month = await succeed(service, 'GET', '/partner/v1/billing/monthly?month=2026-01')
  return [month.volume_usd, month.trade_count]
}
