// The shrinker: the shortened trace fails as the whole trace did, and in no other way.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Action, shrink } from './action.ts'
import { inThisProcess, type OpenStage, replay } from './life.ts'
import type { State } from './model/state.ts'

const SEED = 1
const TENANT = 'partner-1/test'
const BUDGET_MS = 60_000

const key = (label: string): Action => ({ do: 'lever', lever: 'key', tenant: TENANT, label, life: null })
const OPENING: Action[] = [{ do: 'lever', lever: 'partner', slug: 'partner-1' }, key('k1')]
const CLOCK: Action = { do: 'clock', by: 60_000 }
const USER: Action = {
  do: 'call',
  key: 'k1',
  route: 'user',
  body: {
    partner_user_id: 'u1',
    email: 'ann@example.org',
    consent_accepted: true,
    consent_version: 'v1',
    consent_timestamp: '2023-01-01T00:00:00.000Z',
  },
}
const HOOK: Action = { do: 'call', key: 'k1', route: 'hook', url: 'https://partner.example/1' }

/** The unchanged program, and a model with an error about the user and one about the webhook. */
const erring: OpenStage = async (of) => {
  const stage = await inThisProcess(null)(of)
  return {
    ...stage,
    async act(state: State, action: Action) {
      await stage.act(state, action)
      const tenant = state.tenants.get(TENANT)
      const user = tenant?.users.get('u1')
      if (user) user.provider = 'wrong'
      if (tenant?.webhook) tenant.webhook.failures = 7
    },
  }
}

async function shrunk(trace: readonly Action[]): Promise<{ kept: readonly Action[]; how: string }> {
  const play = (cut: readonly Action[]) => replay(SEED, cut, erring)
  const failure = await play(trace)
  assert.ok(failure)
  const kept = await shrink(trace, failure, { replay: play, budgetMs: BUDGET_MS })
  assert.ok(kept)
  const [how = ''] = ((await play(kept))?.message ?? '').split('\n')
  return { kept, how }
}

test('a trace is cut down to what fails in the same records', async () => {
  const { kept, how } = await shrunk([...OPENING, CLOCK, USER, CLOCK, HOOK, CLOCK])
  assert.equal(how, 'what is on record differs: users')
  assert.deepEqual(kept, [...OPENING, USER])
})

test('a label that comes again after a restore is no second key where the restore was cut away', async () => {
  const restored: Action[] = [{ do: 'backup' }, key('k2'), { do: 'restore' }, key('k2'), { do: 'resume' }]
  const { kept, how } = await shrunk([...OPENING, ...restored, USER, CLOCK])
  assert.equal(how, 'what is on record differs: users')
  assert.deepEqual(kept, [...OPENING, USER])
})
