// How an address asks for TLS, of a server that has it: who it is is always checked, and what is wrong is said.

import assert from 'node:assert/strict'
import { chmodSync, chownSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { makeAuthority } from '../support/certificate.ts'
import { assertRefused, PASSWORD, type Refusal, withPasswords } from '../support/postgres-server.ts'
import { runHere } from '../support/service.ts'
import { hasTool } from '../support/tools.ts'

const failed = (says: RegExp): Refusal => ({ exit: 1, code: 'storage_failed', says })

test('every sslmode, another authority, another name, files that are not certificates', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { server, url, port } = await withPasswords(t)
  const data = join(server.folder, 'data')
  const { uid, gid } = statSync(data)
  const authority = makeAuthority(t)
  const { cert, key } = authority.issue('IP:127.0.0.1')
  for (const [name, text] of [
    ['server.crt', cert],
    ['server.key', key],
  ] as const) {
    const file = join(data, name)
    writeFileSync(file, text)
    chmodSync(file, 0o600)
    chownSync(file, uid, gid)
  }
  const rules = join(data, 'pg_hba.conf')
  writeFileSync(rules, `hostnossl all all 127.0.0.1/32 reject\n${readFileSync(rules, 'utf8')}`)
  await server.ask('alter system set ssl = on')
  await server.ask('select pg_reload_conf()')
  const root = encodeURIComponent(authority.caFile)
  const db = url(PASSWORD)
  const { code, err } = await runHere(['--db', `${db}?sslmode=verify-full&sslrootcert=${root}`, 'migrate'])
  assert.equal(code, 0, err)

  const list = ['partner', 'list']
  const socket = `postgres://app:${PASSWORD}@localhost:${port}/app?host=${encodeURIComponent(server.folder)}`
  for (const address of [
    `${db}?sslrootcert=${root}`,
    `${db}?sslmode=prefer&sslrootcert=${root}`,
    `${db}?sslmode=require&sslrootcert=${root}`,
    `${db}?sslmode=verify-ca&sslrootcert=${root}`,
    `${db}?sslmode=no-verify`,
    // What goes over a socket needs none, and is offered none.
    `${socket}&sslmode=verify-full&sslrootcert=${root}`,
  ]) {
    const { code, err } = await runHere(['--db', address, ...list])
    assert.equal(code, 0, `${address.replace(PASSWORD, '')}: ${err}`)
  }

  const untrusted = failed(
    /There is no safe connection to [^;]*: name its certificate authority with sslrootcert=FILE in the address\.$/,
  )
  for (const mode of ['prefer', 'require', 'verify-ca', 'verify-full'])
    await assertRefused(`${db}?sslmode=${mode}`, untrusted)
  const other = encodeURIComponent(makeAuthority(t).caFile)
  await assertRefused(`${db}?sslmode=require&sslrootcert=${other}`, untrusted)
  await assertRefused(
    `${db.replace('127.0.0.1', 'localhost')}?sslmode=verify-ca&sslrootcert=${root}`,
    failed(/The certificate of .* is for another name \(.*\): name the host as its certificate does\.$/),
  )
  await assertRefused(
    `${db}?sslmode=disable`,
    failed(
      /accepts no such connection from here \(.*pg_hba\.conf.*\): .* ask for TLS with sslmode=verify-full in the address/,
    ),
  )
  const none = join(authority.folder, 'none.pem')
  writeFileSync(none, 'not a certificate')
  for (const parameter of ['sslcert', 'sslkey'])
    await assertRefused(
      `${db}?sslmode=require&sslrootcert=${root}&${parameter}=${encodeURIComponent(none)}`,
      failed(/There is no safe connection to .*: name its/),
    )
})
