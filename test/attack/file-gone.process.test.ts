// The database is removed, replaced or renamed under a service that has it open: from then on nothing is answered that
// would be lost.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { copyFileSync, renameSync, rmSync, symlinkSync, unlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import SQLite from 'better-sqlite3'
import { createOps } from '../../src/http/ops/endpoints.ts'
import { createMetrics, EXPOSITION_TYPE } from '../../src/http/ops/metrics.ts'
import type { Log } from '../../src/log.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import { link } from '../http/steps.ts'
import { problem, T0 } from '../store/world.ts'
import { temporaryFolder } from '../support/database.ts'
import { AUDIT, runHere, type Service, startService, USER } from '../support/service.ts'

/** A service that writes down its errors, with the ops endpoints. */
async function watched(t: TestContext): Promise<Service & { errors: string[] }> {
  const errors: string[] = []
  const quiet = (): void => {}
  const log: Log = {
    debug: quiet,
    info: quiet,
    warn: quiet,
    error: (_, message) => void errors.push(message),
  }
  const service = await startService(t, {
    log,
    more: (store, { clock }) => {
      const ops = createOps({ clock, metrics: createMetrics(), exposition: EXPOSITION_TYPE, token: null })
      ops.opened(store)
      return { ops }
    },
  })
  return { ...service, errors }
}

const LOSSES: [what: string, lose: (file: string) => void][] = [
  ['removed', unlinkSync],
  ['renamed', (file) => renameSync(file, `${file}.old`)],
  [
    'replaced by a copy of itself',
    (file) => {
      copyFileSync(file, `${file}.copy`)
      renameSync(`${file}.copy`, file)
    },
  ],
  ['without its log', (file) => unlinkSync(`${file}-wal`)],
  ['without the index of its log', (file) => unlinkSync(`${file}-shm`)],
  ['gone with its folder', (file) => rmSync(dirname(file), { recursive: true })],
]

for (const [what, lose] of LOSSES) {
  test(`a database ${what}: 503 for every call, and one line in the log`, async (t) => {
    const service = await watched(t)
    await link(service, 'before')
    lose(service.file)
    const write = (id: string) => service.call('POST', '/partner/v1/users', { ...USER, partner_user_id: id })
    const answers = await Promise.all(['a', 'b', 'c'].map(write))
    for (const { status, body, headers } of answers) {
      assert.equal(status, 503)
      assert.match(body.detail, /has lost its database/)
      assert.equal(headers.get('retry-after'), '60')
    }
    assert.equal((await service.call('GET', '/partner/v1/me')).status, 503, 'a read is refused too')
    assert.equal(service.errors.length, 1, service.errors.join())
    const ready = await fetch(`${service.opsUrl}/readyz`)
    const { reasons } = (await ready.json()) as { reasons: string[] }
    assert.equal(ready.status, 503)
    assert.equal(reasons.length, 1, reasons.join())
    assert.match(reasons[0] ?? '', /tranche\.db(-wal|-shm)? was removed or replaced while it was open/)
    assert.equal((await fetch(`${service.url}/healthz`)).status, 200)
  })
}

test('a database that comes back under its name stays refused until a restart', async (t) => {
  const service = await watched(t)
  renameSync(service.file, `${service.file}.old`)
  assert.equal((await service.call('POST', '/partner/v1/users', USER)).status, 503)
  renameSync(`${service.file}.old`, service.file)
  await wait(150)
  assert.equal((await service.call('POST', '/partner/v1/users', USER)).status, 503)
  assert.equal((await service.call('GET', '/partner/v1/me')).status, 503)
})

test('a link that is turned to another database counts as replaced', async (t) => {
  const [file, other] = [1, 2].map(() => join(temporaryFolder(t), 'tranche.db')) as [string, string]
  const name = join(dirname(file), 'link.db')
  for (const made of [file, other]) (await openStore(made, { clock: () => T0, create: true })).close()
  symlinkSync(file, name)
  const store = await openStore(name, { clock: () => T0, create: false })
  t.after(() => store.close())
  await store.addPartner({ partnerSlug: 'acme', name: 'a' }, AUDIT)
  unlinkSync(name)
  symlinkSync(other, name)
  await assert.rejects(store.addPartner({ partnerSlug: 'bolt', name: 'b' }, AUDIT), problem('database_gone'))
})

// Only Linux shows what a process has open.
if (process.platform === 'linux')
  test('what a process still has open of a removed database can be rescued, and restored', async (t) => {
    const service = await watched(t)
    await link(service, 'before')
    const folder = dirname(service.file)
    unlinkSync(service.file)
    unlinkSync(`${service.file}-wal`)
    assert.equal((await service.call('POST', '/partner/v1/users', USER)).status, 503)
    // Another process copies: closing such a file here would give up this process's locks on it.
    const copy = `cd /proc/${process.pid}/fd && for n in *; do case "$(readlink $n)" in
    "${service.file} (deleted)") cp $n ${folder}/rescued.db ;;
    "${service.file}-wal (deleted)") cp $n ${folder}/rescued.db-wal ;; esac; done`
    execFileSync('sh', ['-c', copy])
    const restored = await runHere(['--db', service.file, 'restore', join(folder, 'rescued.db')])
    assert.equal(restored.code, 0, restored.err)
    const users = await runHere(['--db', service.file, 'user', 'list', 'acme', '--env', 'test', '--json'])
    assert.match(users.out, /"before"/)
    assert.equal(
      (await service.call('GET', '/partner/v1/me')).status,
      503,
      'not the old process, which has the old file',
    )
  })

test('a tick whose database goes while it waits fires nothing, says so and exits 1', async (t) => {
  const service = await watched(t)
  const other = new SQLite(service.file)
  other.exec('begin immediate')
  const tick = runHere(['--db', service.file, 'tick', '--price', '60000'])
  await wait(300)
  unlinkSync(service.file)
  other.exec('rollback')
  other.close()
  const { code, err } = await tick
  assert.equal(code, 1, err)
  assert.match(err, /tranche\.db was removed or replaced while it was open, so nothing more is stored/)
})

test('a sandbox reset is not reported when its file is gone', async (t) => {
  const service = await watched(t)
  const tenant = await service.store.findTenant('acme', 'test')
  assert.ok(tenant)
  await service.store.resetSandbox(tenant, AUDIT)
  unlinkSync(service.file)
  await assert.rejects(service.store.resetSandbox(tenant, AUDIT), problem('database_gone'))
})
