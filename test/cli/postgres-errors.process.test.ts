// What an operator reads when a database on a server cannot be used: one sentence, a way out, and never the password.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import type { Problem } from '../../src/core/problem.ts'
import { explained } from '../../src/store/postgres/server/errors.ts'
import { refuseUnfit } from '../../src/store/postgres/server/pool.ts'
import { runHere } from '../support/command.ts'
import { freePort } from '../support/free-port.ts'
import { startStandby } from '../support/postgres-server.ts'
import { PASSWORD, withPasswords } from '../support/postgres-user.ts'
import { hasTool } from '../support/tools.ts'

type Expected = { exit: number; code: string; says: RegExp }

/** A command on a database fails with one sentence, which does not hold the password, and each way of asking says it. */
async function assertFails(db: string, { exit, code, says }: Expected, argv = ['partner', 'list']) {
  const ways = [
    ['--db', db, '--json', ...argv],
    ['--db', db, ...argv],
  ]
  const outcomes = await Promise.all(ways.map(async (words) => ({ words, ...(await runHere(words)) })))
  for (const { words, ...outcome } of outcomes) {
    assert.doesNotMatch(outcome.out + outcome.err, new RegExp(PASSWORD))
    assert.equal(outcome.out, '')
    assert.equal(outcome.code, exit, outcome.err)
    const last = outcome.err.trimEnd().split('\n').at(-1) ?? ''
    if (!words.includes('--json')) assert.match(last, says)
    else assert.equal(JSON.parse(last).error.code, code)
  }
}

const migrated = async (db: string): Promise<void> => {
  const { code, err } = await runHere(['--db', db, 'migrate'])
  assert.equal(code, 0, err)
}

test('a server that is down, a wrong host, a wrong password, no database, no schema', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { port, url } = await withPasswords(t)
  const down = await freePort()
  await assertFails(`postgres://app:${PASSWORD}@127.0.0.1:${down}/app`, {
    exit: 1,
    code: 'storage_failed',
    says: new RegExp(
      `postgres://app:\\*\\*\\*@127.0.0.1:${down}/app cannot be reached .*ECONNREFUSED.*start it`,
    ),
  })
  await assertFails(`postgres://app:${PASSWORD}@no-such-host.invalid/app`, {
    exit: 1,
    code: 'storage_failed',
    says: /cannot be reached \(getaddrinfo (ENOTFOUND|EAI_AGAIN) no-such-host.invalid\)/,
  })
  await assertFails(url(`${PASSWORD}x`), {
    exit: 1,
    code: 'storage_failed',
    says: /does not let this user in \(password authentication failed for user "app"\): .*TRANCHE_DB.*pgpass/,
  })
  await assertFails(`postgres://app@127.0.0.1:${port}/app`, {
    exit: 1,
    code: 'storage_failed',
    says: /asks for a password: put it into the address in TRANCHE_DB, or into ~\/.pgpass\./,
  })
  await assertFails(url(PASSWORD, 'none'), {
    exit: 4,
    code: 'database_not_found',
    says: /database "none" does not exist: make it with createdb/,
  })
  await assertFails(url(PASSWORD), {
    exit: 4,
    code: 'database_not_found',
    says: /There is nothing of tranche at postgres:\/\/app:\*\*\*@.*`tranche partner create`/,
  })
  await migrated(url(PASSWORD))
  assert.equal((await runHere(['--db', url(PASSWORD), 'partner', 'list'])).code, 0)
  await assertFails(`${url(PASSWORD)}?sslmode=require`, {
    exit: 1,
    code: 'storage_failed',
    says: /does not speak TLS, which sslmode asks for: set its ssl to on, or leave sslmode out\./,
  })
})

test('no right to make the schema, a database that takes no writes, commits that wait for no disk', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { server, url } = await withPasswords(t)
  await server.ask('create database other')
  await assertFails(
    url(PASSWORD, 'other'),
    {
      exit: 1,
      code: 'storage_failed',
      says: /permission denied for database other: .*GRANT CREATE ON DATABASE/,
    },
    ['migrate'],
  )
  await migrated(url(PASSWORD))
  await server.ask('alter role app set default_transaction_read_only = on')
  await assertFails(
    url(PASSWORD),
    { exit: 1, code: 'storage_failed', says: /takes no writes \(cannot execute .*\): name the primary, or/ },
    ['partner', 'create', 'acme', '--name', 'Acme'],
  )
  await server.ask('alter role app reset default_transaction_read_only')
  await server.ask('alter role app set synchronous_commit = off')
  await assertFails(url(PASSWORD), {
    exit: 1,
    code: 'storage_failed',
    says: /answers before a commit is on disk: set its synchronous_commit to on\./,
  })
})

test('a server without a connection left, and a lock that others keep', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { server, url } = await withPasswords(t, {
    max_connections: '8',
    superuser_reserved_connections: '3',
  })
  await migrated(url(PASSWORD))
  const held = Array.from({ length: 5 }, () => new pg.Client(url(PASSWORD)))
  for (const client of held) client.on('error', () => {})
  await Promise.all(held.map((client) => client.connect()))
  await assertFails(url(PASSWORD), {
    exit: 11,
    code: 'database_locked',
    says: /has no connection left: raise its max_connections, or end what holds them\./,
  })
  await Promise.all(held.slice(1).map((client) => client.end()))
  await held[0]?.query('begin; lock table tranche.partners in access exclusive mode')
  await assertFails(url(PASSWORD), {
    exit: 11,
    code: 'database_locked',
    says: /stayed locked by others for too long: run it again\./,
  })
  await held[0]?.end()
  assert.equal((await server.ask('select 1 as one')).length, 1)
})

test('a standby', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { server, url } = await withPasswords(t)
  await migrated(url(PASSWORD))
  const standby = await startStandby(server)
  t.after(standby.stop)
  await assertFails(standby.url('app'), {
    exit: 1,
    code: 'storage_failed',
    says: /is a standby, which takes no writes: name the primary\./,
  })
})

test('a statement that took too long is no lock that others keep', () => {
  const error = new pg.DatabaseError('canceling statement due to statement timeout', 1, 'error')
  error.code = '57014'
  const { code, message } = explained(error, 'db') as Problem
  assert.equal(code, 'database_locked')
  assert.equal(
    message,
    'db was not done in time (canceling statement due to statement timeout): see what keeps it busy in pg_stat_activity, and run it again.',
  )
})

test('a certificate that is not where the address says is no server that is down', async () => {
  await assertFails('postgres://app@127.0.0.1:1/x?sslmode=require&sslrootcert=/nowhere.pem', {
    exit: 1,
    code: 'storage_failed',
    says: /A file that the address of .* names cannot be read \(ENOENT.*\/nowhere\.pem'\): put the right one/,
  })
})

test('a server that is too old', () => {
  const seen = { standby: false, commits: 'on', version: 150_000n }
  refuseUnfit(seen, 'db')
  assert.throws(() => refuseUnfit({ ...seen, version: 140_012n }, 'db'), {
    code: 'storage_failed',
    message: 'db is older than PostgreSQL 15: upgrade it.',
  })
})
