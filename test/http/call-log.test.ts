// How much a flood of calls writes into the log.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type CallLine, createCallLog, KEYLESS_LINES_MAX } from '../../src/http/call-log.ts'
import type { Log } from '../../src/log.ts'
import { startService } from '../support/service.ts'

type Entry = { level: string; message: string; fields: Record<string, unknown> }

function recorder(): { log: Log; entries: Entry[] } {
  const entries: Entry[] = []
  const at = (level: string) => (fields: object, message: string) =>
    void entries.push({ level, message, fields: fields as Record<string, unknown> })
  return { log: { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }, entries }
}

const LINE: CallLine = {
  request_id: 'r',
  method: 'GET',
  route: '/partner/v1/me',
  partner_slug: 'acme',
  environment: 'test',
  status: 200,
  duration_ms: 1,
}

test('of a thousand calls without a key a few have a line and the rest are counted; with one each has its own', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { log, entries } = recorder()
  const { url, key } = await startService(t, { log })
  const call = async (authorization: string) =>
    (await fetch(`${url}/partner/v1/me`, { headers: { authorization } })).text()
  for (let i = 0; i < 100; i++) await Promise.all(Array.from({ length: 10 }, () => call('Bearer wrong')))
  for (let i = 0; i < 20; i++) await call(`Bearer ${key}`)
  const lines = (status: number) => entries.filter(({ fields }) => fields.status === status).length
  assert.deepEqual([lines(401), lines(200)], [KEYLESS_LINES_MAX, 20])
  t.mock.timers.tick(1_000)
  assert.deepEqual(entries.at(-1), {
    level: 'warn',
    message: 'more refused calls, not logged one by one',
    fields: { calls: 1_000 - KEYLESS_LINES_MAX },
  })
  await call('Bearer wrong')
  assert.equal(lines(401), KEYLESS_LINES_MAX + 1, 'the next second has lines of its own')
  t.mock.timers.tick(1_000)
  assert.equal(entries.length, KEYLESS_LINES_MAX + 1 + 20 + 1, 'and nothing to sum up')
})

test('an error that comes again has its stack once a minute, and a line each time', (t) => {
  t.mock.method(performance, 'now', () => now)
  let now = 0
  const { log, entries } = recorder()
  const note = createCallLog(log)
  const failed = { ...LINE, status: 500 }
  const full = () => note(failed, new Error('disk is full'))
  full()
  full()
  note(failed, new Error('another'))
  now = 59_999
  full()
  now = 60_000
  full()
  assert.deepEqual(
    entries.map(({ level, fields }) => [level, fields.err !== undefined, fields.error]),
    [
      ['error', true, undefined],
      ['error', false, 'Error: disk is full'],
      ['error', true, undefined],
      ['error', false, 'Error: disk is full'],
      ['error', true, undefined],
    ],
  )
})
