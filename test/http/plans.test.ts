// Users and plans over HTTP: the answers, and each refusal.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { startService } from '../support/service.ts'
import { type Json, PLANS, planPath, succeed, USERS } from './steps.ts'

const DESCRIPTION = join(import.meta.dirname, '../../fixtures/openapi/openapi.json')
const DATES = ['consent_timestamp', 'start_date']
// The effect of a user's or a plan's request in every state is tested in test/core/user.test.ts and plan.test.ts.

test('each field of a body is answered as it was sent, in a first request and in later ones', async (t) => {
  const service = await startService(t)
  const { components } = JSON.parse(readFileSync(DESCRIPTION, 'utf8'))
  const sampleOf = (name: string): Json =>
    Object.fromEntries(
      Object.entries<{ examples: [unknown] }>(components.schemas[name].properties).map(
        ([field, { examples }]) => [field, examples[0]],
      ),
    )
  const assertAnswered = (answer: Json, sent: Json) => {
    for (const [field, value] of Object.entries(sent)) {
      if (DATES.includes(field))
        assert.equal(Date.parse(String(answer[field])), Date.parse(String(value)), field)
      else assert.equal(answer[field], value, field)
    }
  }
  const user = sampleOf('UserRequest')
  assertAnswered(await succeed(service, 'POST', USERS, user), user)
  const whole = sampleOf('PlanRequest')
  const { partner_user_id, amount_usd, frequency } = whole
  for (const before of [null, { amount_usd, frequency }, { amount_usd: '1.00', frequency }]) {
    const id = { partner_user_id, partner_plan_id: JSON.stringify(before) }
    if (before) await succeed(service, 'POST', PLANS, { ...id, ...before })
    const sent = { ...whole, ...id }
    assertAnswered(await succeed(service, 'POST', PLANS, sent), sent)
    assertAnswered(await succeed(service, 'GET', planPath(id.partner_plan_id)), sent)
    // What a later request leaves out stays.
    assertAnswered(await succeed(service, 'POST', PLANS, { ...id, amount_usd, frequency }), sent)
  }
})
