// Messages about a database on a server that cannot be used: one sentence with a remedy, and never the password.

import assert from 'node:assert/strict'
import { chmodSync, chownSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { Problem } from '../../src/core/problem.ts'
import { explained } from '../../src/store/postgres/server/errors.ts'
import { refuseUnfit } from '../../src/store/postgres/server/session.ts'
import { makeAuthority } from '../support/certificate.ts'
import { assertRefused, PASSWORD, type Refusal, withPasswords } from '../support/postgres-server.ts'
import { runHere } from '../support/service.ts'
import { freePort } from '../support/within.ts'

const failed = (says: RegExp): Refusal => ({ exit: 1, code: 'storage_failed', says })

const migrated = async (db: string): Promise<void> => {
  const { code, err } = await runHere(['--db', db, 'migrate'])
  assert.equal(code, 0, err)
}

test('a server that is down, a wrong host, a wrong password, no database, no schema', async (t) => {
  const { port, url } = await withPasswords(t)
  const down = await freePort()
  const missing = (says: RegExp): Refusal => ({ exit: 4, code: 'database_not_found', says })
  for (const [address, refusal] of [
    [
      `postgres://app:${PASSWORD}@127.0.0.1:${down}/app`,
      failed(/postgres:\/\/app:\*\*\*@127.0.0.1:\d+\/app cannot be reached .*ECONNREFUSED.*start it/),
    ],
    [
      `postgres://app:${PASSWORD}@no-such-host.invalid/app`,
      failed(/cannot be reached \(there is no such host \((ENOTFOUND|EAI_AGAIN)\)\)/),
    ],
    [
      url(`${PASSWORD}x`),
      failed(/not let this user in \(password authentication failed for user "app"\): .*TRANCHE_DB.*pgpass/),
    ],
    [
      `postgres://app@127.0.0.1:${port}/app`,
      failed(/asks for a password: put it into the address in TRANCHE_DB, or into ~\/.pgpass\./),
    ],
    [url(PASSWORD, 'none'), missing(/database "none" does not exist: create it with createdb/)],
    [
      url(PASSWORD),
      missing(
        /There is no tranche database at postgres:\/\/app:\*\*\*@.*: name the right one in --db or TRANCHE_DB, or begin one there with `partner create SLUG/,
      ),
    ],
  ] as const)
    await assertRefused(address, refusal)
  await migrated(url(PASSWORD))
  assert.equal((await runHere(['--db', url(PASSWORD), 'partner', 'list'])).code, 0)
  await assertRefused(
    `${url(PASSWORD)}?sslmode=require`,
    failed(/refuses TLS, which sslmode asks for: set its ssl to on, or leave sslmode out\.$/),
  )
})

/** By problem: the SQLSTATE or the code of Node, the server's text, and how the message begins. */
const MEANT: Record<string, [code: string, text: string, begins: string][]> = {
  database_locked: [
    ['55P03', 'x', 'The database db stayed locked by others for too long: run it again.'],
    // Not taken for a lock that others keep.
    ['57014', 'x', 'db did not finish in time (x): see what keeps it busy in pg_stat_activity'],
    ['53300', 'x', 'db has no connection left for this user (x): raise that limit (max_connections, '],
  ],
  database_not_found: [['3D000', 'x', 'db: x: create it with createdb, or name another one.']],
  database_damaged: [
    ['42703', 'x', 'The schema of db is not what the migrations of this program make (x)'],
    ['42P01', 'x', 'The schema of db is not what the migrations of this program make (x)'],
    ['XX001', 'x', 'db is damaged (x): stop writing to it, and restore a backup.'],
  ],
  storage_failed: [
    ['28000', 'pg_hba.conf', 'db accepts no such connection from here (pg_hba.conf): add a line to its'],
    ['28P01', 'x', 'db does not let this user in (x): give the right user and password in TRANCHE_DB'],
    ['42501', 'row-level', 'db: row-level: tranche must see every row of its tables, so ALTER TABLE'],
    ['42501', 'for database x', 'db: for database x: tranche connects there and needs a schema of its own'],
    ['42501', 'for table x', 'db: for table x: connect as the user that owns the schema tranche'],
    ['25006', 'x', 'db takes no writes (x): name the primary, and a user whose default_transaction_'],
    ['26000', 'x', 'db is behind a pool that gives one session to several connections (x)'],
    ['55000', 'x', 'db cannot be used (x): name another one.'],
    ['53400', 'x', 'A limit of db was reached (x), so the work in progress is not recorded'],
    ['53100', 'x', 'The disk or the memory of db is full or has failed (x), so the work in progress'],
    ['EAGAIN', 'x', 'db cannot be reached (it is busy: try again (EAGAIN)): start it, or name another'],
  ],
}

for (const [problem, errors] of Object.entries(MEANT))
  for (const [code, text, begins] of errors)
    test(`what ${code} means is said: ${begins}`, () => {
      const error = Object.assign(new Error(text), { code, ...(code === 'EAGAIN' && { syscall: 'connect' }) })
      const told = explained(error, 'db') as Problem
      assert.deepEqual([told.code, told.message.slice(0, begins.length)], [problem, begins])
    })

test('a certificate that is not where the address says, or is a folder, is not taken for a server that is down', async () => {
  for (const [file, why] of [
    ['/nowhere.pem', 'there is no such file or folder \\(ENOENT\\)'],
    ['/', 'it is a folder \\(EISDIR\\)'],
  ])
    await assertRefused(
      `postgres://app@127.0.0.1:1/x?sslmode=require&sslrootcert=${file}`,
      failed(
        new RegExp(`A file that the address of .* names cannot be read: ${file}: ${why}. Put the right one`),
      ),
    )
})

test('a server, a role or a database that the ledger cannot rely on is refused with the change to make', () => {
  const seen = {
    standby: false,
    commits: 'on',
    version: 150_000n,
    encoding: 'UTF8',
    replication: 'origin',
    mark: '',
    open: true,
  }
  refuseUnfit(seen, 'db')
  for (const [unfit, message] of [
    [{ version: 140_012n }, /^db is older than PostgreSQL 15: upgrade it\.$/],
    [{ standby: true }, /^db is a standby, which takes no writes: name the primary\.$/],
    [{ commits: 'off' }, /^db answers before a commit is on disk: set its synchronous_commit to on\.$/],
    [
      { encoding: 'LATIN1' },
      /^db stores its text as LATIN1, not as UTF-8: create the database with createdb/,
    ],
    [
      { replication: 'replica' },
      /^db checks no references .*: set its session_replication_role to origin\.$/,
    ],
  ] as const)
    assert.throws(() => refuseUnfit({ ...seen, ...unfit }, 'db'), { code: 'storage_failed', message })
})

test('a server without memory, another way to log in, another program at the port', async (t) => {
  // Answers: no memory for another process, an unknown login method (GSSAPI), an unknown message, a closed connection,
  // a web server's, noise.
  for (const [answer, says] of [
    ['Ecould not fork new process\n\0', /cannot be reached \(Connection terminated unexpectedly\)/],
    [
      'R\0\0\0\x08\0\0\0\x07',
      /lets nobody in \(Unknown auth.*\): check that PostgreSQL answers at this host/,
    ],
    ['~\0\0\0\x04', /lets nobody in \(received invalid.*\): check that PostgreSQL answers at this host/],
    ['', /cannot be reached \(Connection terminated unexpectedly\)/],
    ['HTTP/1.1 400 Bad Request\r\n\r\n', /lets nobody in|cannot be reached/],
    ['y'.repeat(99), /lets nobody in|cannot be reached/],
  ] as const) {
    const fake = createServer((socket) => {
      socket.on('error', () => {})
      socket.once('data', () => (/^R|^~/.test(answer) ? socket.write(answer) : socket.end(answer)))
    })
    await new Promise<void>((resolve) => fake.listen(0, '127.0.0.1', resolve))
    t.after(() => fake.close())
    const { port } = fake.address() as AddressInfo
    await assertRefused(`postgres://app:${PASSWORD}@127.0.0.1:${port}/app`, failed(says))
  }
})

// Messages after somebody has changed a server, a role or a schema under a database: the change to undo.

/** A database with some rows, and a way to change it as the server's superuser. */
async function stage(t: TestContext) {
  const guarded = await withPasswords(t)
  const { server, url } = guarded
  const db = url(PASSWORD)
  const { code, err } = await runHere(['--db', db, 'partner', 'create', 'acme', '--name', 'Acme'])
  assert.equal(code, 0, err)
  return { ...guarded, db, ask: (sql: string) => server.ask(sql, 'app') }
}

/** The check's findings about the schema, in short. */
async function changesFound(db: string): Promise<string[]> {
  const { code, out, err } = await runHere(['--db', db, 'check', '--json'])
  assert.equal(code, 3, err)
  const found = JSON.parse(out).findings as { kind: string; subject: string; message: string; mend: string }[]
  const changes = found.filter(({ kind }) => kind === 'schema_differs')
  for (const { mend } of changes) assert.match(mend, /^psql .* -c '\\d tranche\.\*'$/)
  return changes.map(({ subject, message }) => `${subject} ${message.split(' since')[0]}`).sort()
}

test('rights that somebody took, policies and triggers that somebody added, tables that are gone', async (t) => {
  const { db, ask } = await stage(t)
  const create = ['partner', 'create', 'bolt', '--name', 'Bolt']

  await ask('revoke all on schema tranche from app; alter schema tranche owner to tranche')
  await assertRefused(
    db,
    failed(/a schema tranche that this user may not use: connect as its owner, or .*GRANT USAGE/),
  )
  await ask('alter schema tranche owner to app; grant all on schema tranche to app')
  await ask('revoke insert on tranche.partners from app')
  await assertRefused(db, failed(/permission denied for table partners: connect as/), create)
  await ask('grant insert on tranche.partners to app')

  await ask('alter table tranche.partners rename to friends')
  const changed = {
    exit: 1,
    code: 'database_damaged',
    says: /^error: The schema of .* is not what the migrations of this program make \(relation "partners" does not exist\): /,
  }
  await assertRefused(db, changed)
  await ask('alter table tranche.friends rename to partners')
  await ask('alter table tranche.partners rename name to called')
  await assertRefused(db, { ...changed, says: /\(column .* does not exist\)/ }, create)
  assert.deepEqual(await changesFound(db), [
    'column partners.name is missing',
    'constraint partners_name_check was changed',
  ])
  await ask('alter table tranche.partners rename called to name')

  assert.equal((await runHere(['--db', db, 'check', '--json'])).code, 0)
  await ask(
    `drop index tranche.windows_current; alter table tranche.trades drop constraint trades_partner_order_id_tenant_id_key;
     alter table tranche.windows drop constraint windows_check;
     alter table tranche.audit disable trigger audit_keep; alter table tranche.plans alter amount_usd drop not null;
     create function public.lose() returns trigger language plpgsql as $$ begin return null; end $$;
     create trigger lose before insert on tranche.trades for each row execute function public.lose();
     create unique index mine on tranche.prices (price); create index harmless on tranche.prices (source);
     alter table tranche.prices enable row level security; create table tranche.theirs (n int)`,
  )
  assert.deepEqual(await changesFound(db), [
    'column plans.amount_usd was changed',
    'constraint trades_partner_order_id_tenant_id_key is missing',
    'constraint windows_check is missing',
    'index mine was added',
    'index trades_partner_order_id_tenant_id_key is missing',
    'index windows_current is missing',
    'table prices was changed',
    'trigger audit.audit_keep was changed',
    'trigger trades.lose was added',
  ])
})

// TLS by the address, with a server that has it: its identity is always verified, and a failure is explained.

test('every sslmode, another authority, another name, files that are not certificates', async (t) => {
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
    // A connection over a socket needs no TLS, and is offered none.
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
