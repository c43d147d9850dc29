// Erased data of a user cannot be read in any file of the database afterwards.

import assert from 'node:assert/strict'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { openFile } from '../../src/store/sqlite/file/connection.ts'
import { assertSound, link, plan, succeed, USERS } from '../http/steps.ts'
import { type Service, startService, USER } from '../support/service.ts'
import { shell } from './steps.ts'

const EMAIL = 'ann.erasable@example.org'
const PROVIDER = 'passkey-of-ann'

/** The files of the database that contain a text. */
function filesWith({ file }: Service, text: string): string[] {
  const folder = dirname(file)
  return readdirSync(folder).filter((name) => readFileSync(join(folder, name)).includes(text))
}

const send = (service: Service, id: string, more: object) =>
  succeed(service, 'POST', USERS, { ...USER, partner_user_id: id, ...more })

const erase = async (service: Service, id: string, env = 'test') =>
  JSON.parse(await shell(service, ['--json', 'user', 'erase', 'acme', id, '--env', env, '--yes']))

test('the e-mail and provider are gone from rows and bytes, among many users and through many changes', async (t) => {
  const service = await startService(t)
  for (let i = 0; i < 150; i++) {
    await send(service, `u${i}`, { email: `user-${i}@example.org`, auth_provider: 'x'.repeat(i + 1) })
    if (i % 10 === 0) await send(service, 'ann', { email: `${i}${EMAIL}`, auth_provider: `${PROVIDER}${i}` })
  }
  await send(service, 'ann', { email: EMAIL, auth_provider: PROVIDER })
  await plan(service, 'ann', 'p1')
  assert.ok(filesWith(service, EMAIL).length > 0, 'the search finds what is there')

  service.advance(1000)
  const answer = await erase(service, 'ann')
  assert.equal(answer.gone_from_file, true)
  assert.deepEqual([answer.email, answer.auth_provider], [null, null])
  assert.deepEqual(filesWith(service, EMAIL), [], 'not even an earlier one')
  assert.deepEqual(filesWith(service, PROVIDER), [])
  assert.ok(filesWith(service, 'user-149@example.org').length > 0, 'nobody else is touched')

  const tenant = await service.store.findTenant('acme', 'test')
  assert.ok(tenant)
  const users = await service.store.listUsers(tenant, { after: null, limit: 1000 })
  const ann = users.find(({ partnerUserId }) => partnerUserId === 'ann')
  assert.deepEqual([ann?.email, ann?.authProvider, ann?.erasedAt], [null, null, service.now()])
  assert.deepEqual([ann?.consentVersion, ann?.status], ['v1', 'linked'])
  const [audited] = (await service.store.listAudit({ after: null, limit: 100 })).slice(-1)
  assert.deepEqual([audited?.action, audited?.subject], ['user.erase', 'ann'])
  assert.equal((await service.tick('60000')).executionsCreated, 1, 'the plan goes on')
  await assertSound(service)
})

test('what the partner sends afterwards is kept, and what is left out stays empty', async (t) => {
  const service = await startService(t)
  await send(service, 'ann', { email: EMAIL, auth_provider: PROVIDER })
  await erase(service, 'ann')
  const again = await link(service, 'ann')
  assert.deepEqual([again.email, again.auth_provider], [null, null])
  const renewed = await send(service, 'ann', { email: 'new@example.org' })
  assert.equal(renewed.email, 'new@example.org')
})

test('zeros are written at once, so that the file need not be written anew', async (t) => {
  const service = await startService(t)
  for (let i = 0; i < 40; i++) await send(service, `u${i}`, { auth_provider: `${PROVIDER}${'x'.repeat(i)}` })
  // Without an e-mail nothing is searched for, and no file is rewritten.
  for (let i = 0; i < 40; i++) assert.equal((await erase(service, `u${i}`)).gone_from_file, true)
  assert.deepEqual(filesWith(service, PROVIDER), [])
})

test('a text that an older version left in a free page goes too', async (t) => {
  const service = await startService(t)
  await send(service, 'ann', { email: EMAIL })
  // As it was before zeros were written.
  const db = openFile(service.file)
  db.pragma('secure_delete = off')
  db.exec(`create table scratch (text text); insert into scratch values ('${EMAIL}'); drop table scratch`)
  db.close()
  assert.equal((await erase(service, 'ann')).gone_from_file, true)
  assert.deepEqual(filesWith(service, EMAIL), [])
  await assertSound(service)
})

test('an e-mail that is in another environment too is said to be still there, until that is erased', async (t) => {
  const service = await startService(t)
  const key = await service.issueKey('acme', 'live')
  await send(service, 'ann', { email: EMAIL })
  await succeed(service, 'POST', USERS, { ...USER, partner_user_id: 'ann', email: EMAIL }, { key })
  assert.equal((await erase(service, 'ann')).gone_from_file, false)
  assert.equal((await erase(service, 'ann', 'live')).gone_from_file, true)
  assert.deepEqual(filesWith(service, EMAIL), [])
})

test('it waits for a reader of the log, and safely runs again', async (t) => {
  const service = await startService(t)
  await send(service, 'ann', { email: EMAIL })
  const reader = openFile(service.file)
  t.after(() => reader.close())
  reader.exec('begin')
  reader.prepare('select count(*) from users').get()
  const erasing = erase(service, 'ann')
  const email = openFile(service.file)
  t.after(() => email.close())
  const read = email.prepare('select email from users').pluck()
  while (read.get() !== null) await new Promise((resolve) => setImmediate(resolve))
  assert.ok(filesWith(service, EMAIL).length > 0, 'the reader still sees it')
  reader.exec('rollback')
  assert.equal((await erasing).gone_from_file, true)
  assert.deepEqual(filesWith(service, EMAIL), [])
  assert.equal((await erase(service, 'ann')).gone_from_file, true)
})

test('the locks of this process on the file outlast an erasure', async (t) => {
  const service = await startService(t)
  await send(service, 'ann', { email: EMAIL, auth_provider: PROVIDER })
  const own = new RegExp(`POSIX .* ${process.pid} \\S+:${statSync(service.file).ino} `)
  assert.match(readFileSync('/proc/locks', 'utf8'), own)
  const tenant = await service.store.findTenant('acme', 'test')
  assert.ok(tenant)
  const entry = { osUser: 'me', action: 'user.erase', subject: 'ann', detail: {} }
  await service.store.eraseUser(tenant, 'ann', entry)
  assert.match(readFileSync('/proc/locks', 'utf8'), own)
})

test('an id that looks like nothing is an id: its user and plan are shown, and the user is erased', async (t) => {
  const service = await startService(t)
  for (const id of [' ', '\u2028', '\ufeff']) {
    await send(service, id, { email: EMAIL })
    await plan(service, id, id)
    const shown = JSON.parse(await shell(service, ['--json', 'user', 'show', 'acme', id, '--env', 'test']))
    assert.deepEqual([shown.partner_user_id, shown.email], [id, EMAIL])
    assert.equal(
      JSON.parse(await shell(service, ['--json', 'plan', 'show', id, '--partner', 'acme'])).partner_plan_id,
      id,
    )
    assert.equal((await erase(service, id)).email, null)
  }
})
