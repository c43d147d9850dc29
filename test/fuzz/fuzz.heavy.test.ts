// A few seconds of the fuzzer, whether it would notice, and what repeated calls cost. `npm run fuzz` goes on for as
// long as one likes.

import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { LATE_FILLS_MAX } from '../../src/core/confirmation.ts'
import { fireInSandbox } from '../../src/engine/sandbox.ts'
import { machine } from '../../src/machine.ts'
import { openFile } from '../../src/store/sqlite/file/connection.ts'
import { head } from '../http/raw.ts'
import { confirmPath, DUE, PLANS, USERS } from '../http/steps.ts'
import { AUDIT, fill, PLAN, USER } from '../support/service.ts'
import { assertFlat, fuzz, growthOf, neverSucceeded, type Player, startTarget, type Target } from './fuzz.ts'
import type { Answer } from './oracle.ts'
import { createOwners, judge } from './oracle.ts'
import type { Request } from './requests.ts'
import { OPERATIONS } from './requests.ts'
import { createClient } from './wire.ts'

const REQUESTS = 900
const LUCKY_MAX = 3
const REPEATS = 5
const MIB = 1024 * 1024

suite('fuzzing', { concurrency: 1 }, () => {
  test('a short run, from a fresh seed: nearly every operation succeeds', async (t) => {
    const seed = Number(process.env.SEED ?? Buffer.from(machine.random(4)).readUInt32BE())
    t.diagnostic(`SEED=${seed}`)
    const { answers } = await fuzz(t, { seed, requests: REQUESTS, minutes: 1 })
    for (const { operationId } of OPERATIONS) assert.ok(answers[operationId], `${operationId} was called`)
    // A report that has a second page takes luck. `npm run fuzz` sees all of them succeed.
    const never = neverSucceeded({ answers })
    assert.ok(never.length <= LUCKY_MAX, `${never} have not succeeded`)
    // Only what no seed leaves out: rarer answers are seen in longer runs.
    for (const status of [404, 422]) assert.ok(answers.confirmExecution?.[status], `confirmed: ${status}`)
    assert.ok(answers.wire?.[400] && answers.bystander?.[200])
  })

  test('calls that are repeated, and calls that are refused, add nothing to the file', async (t) => {
    const target = await startTarget(t, 1)
    const { key, tenant } = (target.players[0] as Player).test
    const client = createClient(target.served.url)
    t.after(() => client.close())
    const call = async (method: string, path: string, body?: object): Promise<Answer> => {
      const text = body ? JSON.stringify(body) : ''
      const lines = body ? [`Content-Length: ${text.length}`] : []
      const [answer] = await client.send(Buffer.from(head(method, path, key, lines) + text))
      return answer as Answer
    }
    assert.equal((await call('POST', USERS, USER)).status, 200)
    assert.equal((await call('POST', PLANS, PLAN)).status, 200)
    const { store } = target
    await fireInSandbox(PLAN.partner_plan_id, { store, machine, tenant, price: null, audit: AUDIT })
    const [due] = JSON.parse((await call('GET', DUE)).body)
    const report = fill('order-1', due.amount_usd)
    const confirm = () => call('POST', confirmPath(due.execution_id), report)
    assert.equal((await confirm()).status, 200)
    // Nothing more is to fire.
    assert.equal((await call('POST', PLANS, { ...PLAN, status: 'cancelled' })).status, 200)

    const round = async (): Promise<number[]> => {
      const answers = [
        await call('POST', USERS, USER),
        await call('POST', PLANS, PLAN),
        await confirm(),
        await call('POST', PLANS, { ...PLAN, amount_usd: '0.99' }),
        await call('POST', confirmPath('exec_0'), report),
        await call('POST', confirmPath(due.execution_id), fill('order-2', due.amount_usd)),
        await call('GET', DUE),
      ]
      return answers.map(({ status }) => status)
    }
    for (let n = 0; n < LATE_FILLS_MAX; n++)
      assert.deepEqual(await round(), [200, 200, 200, 422, 404, 409, 200])
    const before = contentOf(target)
    assert.ok(before.executions?.rows === 1 && before.trades?.rows === 1)
    for (let n = 0; n < REPEATS; n++) await round()
    assert.deepEqual(contentOf(target), before)
  })
})

type Content = Record<string, { rows: number; characters: number }>

/** How many rows each table has, and how long they are when they are written out: a timestamp always the same. */
function contentOf({ file }: Target): Content {
  const db = openFile(file)
  try {
    const tables = db
      .prepare<[], { name: string }>("select name from sqlite_master where type = 'table'")
      .all()
    return Object.fromEntries(
      tables.map(({ name }) => {
        const rows = db.prepare<[], unknown[]>(`select * from ${name}`).raw().all()
        return [name, { rows: rows.length, characters: rows.map(String).join().length }]
      }),
    )
  } finally {
    db.close()
  }
}

const SEAT = {
  tenant: { tenantId: 1, partnerSlug: 'acme', environment: 'test' },
  key: 'k',
  tag: 'zt1test',
} as const
const REQUEST: Request = {
  method: 'POST',
  target: '/partner/v1/users',
  headers: [['X-Request-Id', 'call-1']],
  body: Buffer.from(JSON.stringify(USER)),
  stranger: null,
  requestId: 'call-1',
  isPlain: false,
}
const HEADERS = { 'cache-control': 'no-store', 'content-type': 'application/json', 'x-request-id': 'call-1' }
const CODES: Record<number, string> = {
  400: 'consent_required',
  401: 'key_invalid',
  422: 'validation_failed',
}
const refusal = (loc: unknown[], msg: string): string =>
  JSON.stringify({ detail: [{ type: 'string_type', loc, msg }] })

/** What the oracle says of an answer, or that it is fine. */
function judged(status: number, body: string, headers: Record<string, string> = {}): string {
  try {
    judge(
      REQUEST,
      {
        status,
        body,
        headers: new Headers({ ...HEADERS, 'x-error-code': CODES[status] ?? 'none', ...headers }),
      },
      createOwners(),
      SEAT,
    )
    return 'fine'
  } catch (error) {
    return String(error)
  }
}

test('the oracle does notice', () => {
  const fine = refusal(['body', 'email'], 'Input should be a valid string')
  assert.equal(judged(422, fine), 'fine')
  const cases: [expected: RegExp, status: number, body: string, headers?: Record<string, string>][] = [
    [/answered 500/, 500, '{"detail":"Internal Server Error"}'],
    [/which is not described/, 418, '{"detail":"x"}'],
    [/must NOT have additional properties/, 400, '{"detail":"x","stack":"y"}'],
    [/the answer to this call/, 422, fine, { 'x-request-id': 'call-2' }],
    [/X-Error-Code: order_id_taken/, 422, fine, { 'x-error-code': 'order_id_taken' }],
    [/no-store/, 422, fine, { 'cache-control': 'public' }],
    [/application\/json/, 422, fine, { 'content-type': 'text/html' }],
    [/repeats what was sent/, 422, refusal(['body', 'email'], 'zqx is not an e-mail')],
    [/is a field/, 422, refusal(['body', '__proto__'], 'Input should be a valid string')],
    [/is another tenant/, 400, '{"detail":"zt2live-1-user-1 exists"}'],
    [/the key is good/, 401, '{"detail":"Invalid API key."}', { 'www-authenticate': 'Bearer' }],
    [/JSON/, 400, '<html>'],
  ]
  for (const [expected, status, body, headers] of cases) assert.match(judged(status, body, headers), expected)
})

test('memory that grows all the time is told from memory that grows warm', () => {
  const samples = (bytesAt: (n: number) => number) =>
    Array.from({ length: 1_000 }, (_, n) => ({ requests: n, residentBytes: bytesAt(n), fileBytes: 0 }))
  const growth = (bytesAt: (n: number) => number) => growthOf({ samples: samples(bytesAt) })
  const warming = growth((n) => 200 * MIB - 100 * MIB * Math.exp(-n / 50) + (n % 7) * MIB)
  const leaking = growth((n) => 200 * MIB + (n * MIB) / 20)
  assert.ok(warming && leaking)
  assertFlat(warming)
  assert.throws(() => assertFlat(leaking), /has grown by/)
  assert.equal(growthOf({ samples: samples(() => 1).slice(0, 10) }), null)
})
