// A move from or to a server whose commits wait for a standby, when somebody ends such a wait: what is on one disk
// alone could be lost, and the source would take writes beside its copy.

import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { databaseOf } from '../../src/cli/context.ts'
import { copyDatabase } from '../../src/copy.ts'
import { machineAt } from '../../src/machine.ts'
import { commitAlone } from '../../src/store/postgres/server/month-gate.ts'
import { openAlone } from '../../src/store/postgres/server/pool.ts'
import { AUDIT, populate, T0 } from '../store/world.ts'
import { temporaryFolder } from '../support/database.ts'
import { assertNotToldAlone, followed, ourPair } from '../support/postgres-server.ts'
import { hasTool } from '../support/tools.ts'

/** A small database on a primary, an empty one, a place for a file, and a move from one to another. */
async function stage(t: TestContext, name: string) {
  const pair = await ourPair()
  const { machine } = machineAt(T0)
  for (const database of [`${name}_full`, `${name}_empty`])
    await pair.primary.ask(`create database ${database}`)
  const [full, empty] = [pair.primary.url(`${name}_full`), pair.primary.url(`${name}_empty`)]
  const file = join(temporaryFolder(t), 'moved.db')
  const on = (address: string) => databaseOf(address, machine)
  const store = await (await on(full)).open({ create: true })
  await populate(store)
  await store.close()
  /** `verifying` is called when all that is left to commit is the seal and the name. */
  const move = async (from: string, to: string, { seal = true, verifying = () => {} } = {}) => {
    let hasBegun = false
    return copyDatabase(await on(from), await on(to), {
      now: T0,
      seal,
      replace: false,
      kind: 'move',
      show: (_, doing) => {
        if (doing !== 'verifying' || hasBegun) return
        hasBegun = true
        verifying()
      },
    })
  }
  return { pair, full, empty, file, on, move }
}

suite('a move and a standby', () => {
  test('a seal is not taken for set while one disk alone has it', async (t) => {
    if (!hasTool(t, 'postgres')) return
    const { pair, full, file, move } = await stage(t, 'sealed')
    await assertNotToldAlone(t, pair, 'pg_cancel_backend', (verifying) => move(full, file, { verifying }))
  })

  test('a seal that another copy has set, and could not wait for, is waited for before the copy has a name', async (t) => {
    if (!hasTool(t, 'postgres')) return
    const { pair, full, file, move, on } = await stage(t, 'again')
    let goOn = () => {}
    t.after(() => goOn())
    const first = followed(move(full, file, { verifying: () => (goOn = pair.holdBack()) }))
    await pair.waits(first.isOver)
    await pair.endWait('pg_terminate_backend')
    await first.ended
    assert.match(first.told(), /it is not known whether that was recorded/)
    assert.equal((await (await on(full)).seal())?.movedTo, file)
    for (const seal of [true, false]) {
      const { told, isOver, ended } = followed(move(full, file, { seal }))
      await pair.waits(isOver)
      assert.equal(told(), '')
      assert.ok(!existsSync(file))
      if (seal) await pair.endWait('pg_terminate_backend')
      else goOn()
      await ended
      assert.equal(told() === 'done', !seal, told())
      assert.equal(existsSync(file), !seal)
    }
  })

  test('a copy is not told as in its place while one disk alone has it there', async (t) => {
    if (!hasTool(t, 'postgres')) return
    const { pair, full, empty, file, move } = await stage(t, 'named')
    await move(full, file)
    await assertNotToldAlone(t, pair, 'pg_cancel_backend', (verifying) =>
      move(file, empty, { seal: false, verifying }),
    )
  })

  test('a seal is not told as taken off on one disk alone', async (t) => {
    if (!hasTool(t, 'postgres')) return
    const { pair, full, file, move, on } = await stage(t, 'unsealed')
    await move(full, file)
    await assertNotToldAlone(t, pair, 'pg_cancel_backend', async (holdBack) => {
      holdBack()
      await (await on(full)).unseal({ now: T0, audit: () => AUDIT })
    })
  })

  test('a commit of what has failed is not taken for done', async (t) => {
    if (!hasTool(t, 'postgres')) return
    const { primary } = await ourPair()
    const client = await openAlone(primary.url('postgres'))
    t.after(() => client.end())
    await client.query('begin')
    await client.query('select 1 / 0').catch(() => {})
    await assert.rejects(commitAlone(client), /a commit was answered with ROLLBACK/)
  })
})
