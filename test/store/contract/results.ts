// What the jobs beside the scheduler came to: the newest of each on each host, for every process.

import assert from 'node:assert/strict'
import { HOUR_MS, plus } from '../../../src/core/time.ts'
import { type Contract, T0, type World } from '../world.ts'

const resultsOf = async ({ store }: World) => {
  const { now } = await store.readClock()
  return (await store.readVitals(now, await store.takeStock(now))).results
}

export const resultsContract: Contract = {
  'the newest result of a job replaces the one before, and keeps when it last went well': async (world) => {
    const { store } = world
    assert.deepEqual(await resultsOf(world), [])
    const check = { job: 'check', host: '', endsAt: plus(T0, HOUR_MS), message: '' } as const
    await store.noteResult({ ...check, ok: true })
    assert.deepEqual(await resultsOf(world), [{ ...check, ok: true, at: T0, wellAt: T0 }])
    world.advance(HOUR_MS)
    const failed = { ...check, ok: false, endsAt: null, message: '1 error (trade_changed)' }
    await (await world.connect()).noteResult(failed)
    assert.deepEqual(await resultsOf(world), [{ ...failed, at: plus(T0, HOUR_MS), wellAt: T0 }])
    // What is too long to keep is cut between two characters.
    await store.noteResult({ ...failed, message: '\u{1f4b0}'.repeat(1_000) })
    assert.equal((await resultsOf(world))[0]?.message, '\u{1f4b0}'.repeat(300))
  },

  'each host has a result of its own, which can be forgotten alone': async (world) => {
    const { store } = world
    const certificate = { job: 'certificate', ok: true, endsAt: T0, message: 'DNS:api.example' } as const
    for (const host of ['b:1', 'a:1']) await store.noteResult({ ...certificate, host })
    await store.noteResult({ ...certificate, job: 'check', host: 'a:1' })
    const names = async () => (await resultsOf(world)).map(({ job, host }) => `${job} ${host}`)
    assert.deepEqual(await names(), ['certificate a:1', 'certificate b:1', 'check a:1'])
    await store.forgetResult('certificate', 'a:1')
    await store.forgetResult('certificate', 'nobody')
    assert.deepEqual(await names(), ['certificate b:1', 'check a:1'])
  },
}
