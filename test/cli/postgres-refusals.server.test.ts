// What an operator reads when somebody has changed a server, a role or a schema under a database: what to change back.

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { assertRefused, PASSWORD, type Refusal, withPasswords } from '../support/postgres-server.ts'
import { runHere } from '../support/service.ts'
import { hasTool } from '../support/tools.ts'

const failed = (says: RegExp): Refusal => ({ exit: 1, code: 'storage_failed', says })

/** A database with something in it, and what is done to it by the server's superuser. */
async function stage(t: TestContext) {
  const guarded = await withPasswords(t)
  const { server, url } = guarded
  const db = url(PASSWORD)
  const { code, err } = await runHere(['--db', db, 'partner', 'create', 'acme', '--name', 'Acme'])
  assert.equal(code, 0, err)
  return { ...guarded, db, ask: (sql: string) => server.ask(sql, 'app') }
}

/** What the check says of the schema, in short. */
async function changesFound(db: string): Promise<string[]> {
  const { code, out, err } = await runHere(['--db', db, 'check', '--json'])
  assert.equal(code, 3, err)
  const found = JSON.parse(out).findings as { kind: string; subject: string; message: string; mend: string }[]
  const changes = found.filter(({ kind }) => kind === 'schema')
  for (const { mend } of changes) assert.match(mend, /^psql .* -c '\\d tranche\.\*'$/)
  return changes.map(({ subject, message }) => `${subject} ${message.split(' since')[0]}`).sort()
}

test('text in another encoding than UTF-8', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { server, url } = await withPasswords(t)
  for (const encoding of ['SQL_ASCII', 'LATIN1', 'EUC_JP']) {
    const name = encoding.toLowerCase()
    await server.ask(`create database ${name} owner app encoding '${encoding}' template template0`)
    await assertRefused(
      url(PASSWORD, name),
      failed(
        new RegExp(
          `stores its text as ${encoding}, not as UTF-8: create the database with createdb --encoding UTF8`,
        ),
      ),
      ['migrate'],
    )
  }
})

test('rights that somebody took, policies and triggers that somebody added, tables that are gone', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { db, ask } = await stage(t)
  const list = ['partner', 'list']
  const create = ['partner', 'create', 'bolt', '--name', 'Bolt']

  await ask(`alter role app set session_replication_role = replica`)
  await assertRefused(db, failed(/checks no references .*: set its session_replication_role to origin\.$/))
  await ask(`alter role app reset session_replication_role`)

  await ask('revoke all on schema tranche from app; alter schema tranche owner to tranche')
  await assertRefused(
    db,
    failed(/a schema tranche that this user may not use: connect as its owner, or .*GRANT USAGE/),
  )
  await assertRefused(db, failed(/may not use/), create)
  await ask('alter schema tranche owner to app; grant all on schema tranche to app')

  await ask('revoke select on tranche.partners from app')
  await assertRefused(
    db,
    failed(
      /permission denied for table partners: connect as the user that owns the schema tranche, and give it all/,
    ),
  )
  await ask('grant select on tranche.partners to app; revoke insert on tranche.partners from app')
  await assertRefused(db, failed(/permission denied for table partners: connect as/), create)
  await ask('grant insert on tranche.partners to app')

  await ask('alter table tranche.partners enable row level security')
  assert.equal((await runHere(['--db', db, ...list])).code, 0)
  await ask('alter table tranche.partners force row level security')
  await assertRefused(
    db,
    failed(/row-level security policy for table "partners": .*NO FORCE ROW LEVEL SECURITY/),
  )
  await ask(
    'alter table tranche.partners no force row level security; alter table tranche.partners disable row level security',
  )

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

test('limits of a role and of a database, and a database that is closed', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { server, db, ask } = await stage(t)
  const held = new pg.Client(db)
  held.on('error', () => {})
  await held.connect()
  const none = (says: RegExp): Refusal => ({ exit: 11, code: 'database_locked', says })
  await ask('alter role app connection limit 1')
  await assertRefused(
    db,
    none(/has no connection left for this user \(too many connections for role "app"\): raise that limit/),
  )
  await ask('alter role app connection limit -1; alter database app connection limit 1')
  await assertRefused(db, none(/\(too many connections for database "app"\): raise that limit/))
  await held.end()
  await ask('alter database app connection limit -1')
  await server.ask('alter database app allow_connections false')
  await assertRefused(
    db,
    failed(/cannot be used \(database "app" is not currently accepting connections\): name another one\./),
  )
})
