// A few seconds of the fuzzer, and the cost of repeated calls. `npm run fuzz` continues for any time.

import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { LATE_FILLS_MAX } from '../../src/core/confirmation.ts'
import { fireInSandbox } from '../../src/engine/sandbox.ts'
import { machine } from '../../src/machine.ts'
import { openFile } from '../../src/store/sqlite/file/connection.ts'
import { head } from '../http/raw.ts'
import { confirmPath, DUE, PLANS, USERS } from '../http/steps.ts'
import { AUDIT, fill, PLAN, USER } from '../support/service.ts'
import { fuzz, neverSucceeded, type Player, startTarget, type Target } from './fuzz.ts'
import type { Answer } from './oracle.ts'
import { OPERATIONS } from './requests.ts'
import { createClient } from './wire.ts'

const REQUESTS = 900
const LUCKY_MAX = 3
const REPEATS = 5

suite('fuzzing', { concurrency: 1 }, () => {
  test('a short run, from a fresh seed: nearly every operation succeeds', async (t) => {
    const seed = Number(process.env.SEED ?? Buffer.from(machine.random(4)).readUInt32BE())
    t.diagnostic(`SEED=${seed}`)
    const { answers } = await fuzz(t, { seed, requests: REQUESTS, minutes: 1 })
    for (const { operationId } of OPERATIONS) assert.ok(answers[operationId], `${operationId} was called`)
    // A report with a second page takes luck. `npm run fuzz` sees all of them succeed.
    const never = neverSucceeded({ answers })
    assert.ok(never.length <= LUCKY_MAX, `${never} have not succeeded`)
    // Only the answers that every seed gets: rarer ones are seen in longer runs.
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

/** The row count of each table, and the length of its rows as text: a timestamp always counts the same. */
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
