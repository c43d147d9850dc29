// Whatever a role, a database or an address sets a session to: what the ledger relies on is set by us, and rows are the
// same.

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { openStore } from '../../src/store/postgres/open.ts'
import { type Connection, connect } from '../../src/store/postgres/server/connection.ts'
import { openPool } from '../../src/store/postgres/server/pool.ts'
import { query } from '../../src/store/statement.ts'
import { type Server, startServer } from '../support/postgres-server.ts'
import { runHere } from '../support/service.ts'
import { hasTool } from '../support/tools.ts'
import { filled, firstTranche, openWorld, poll, report, T0, tick } from './world.ts'

/** What somebody sets, and what a session of ours has all the same; null where it is theirs to say. */
const SET: Record<string, [theirs: string, ours: string | null]> = {
  statement_timeout: ['9s', '1min'],
  lock_timeout: ['9s', '15s'],
  idle_in_transaction_session_timeout: ['9s', '10s'],
  idle_session_timeout: ['9s', '0'],
  default_transaction_isolation: ['serializable', 'read committed'],
  default_transaction_deferrable: ['on', null],
  synchronous_commit: ['remote_write', 'on'],
  client_min_messages: ['error', 'warning'],
  extra_float_digits: ['-15', '1'],
  array_nulls: ['off', 'on'],
  standard_conforming_strings: ['off', 'on'],
  row_security: ['on', 'off'],
  search_path: ['theirs, pg_catalog', 'tranche'],
  client_encoding: ['LATIN1', 'UTF8'],
  jit: ['on', 'off'],
  DateStyle: ['German, DMY', null],
  IntervalStyle: ['sql_standard', null],
  TimeZone: ['Asia/Kathmandu', null],
  bytea_output: ['escape', null],
  transform_null_equals: ['on', null],
  quote_all_identifiers: ['on', null],
  default_tablespace: ['pg_default', null],
  work_mem: ['64kB', null],
  plan_cache_mode: ['force_generic_plan', null],
  enable_indexscan: ['off', null],
  enable_nestloop: ['off', null],
  enable_sort: ['off', null],
  force_parallel_mode: ['on', null],
  exit_on_error: ['on', null],
}

async function serverWith(t: TestContext, settings: Record<string, string> = {}): Promise<Server> {
  const server = await startServer(settings)
  t.after(server.stop)
  return server
}

function connectTo(t: TestContext, url: string): Connection {
  const connection = connect(openPool(url, { max: 2 }), url, () => T0)
  t.after(() => connection.close())
  return connection
}

test('a session is ours, however its role is set, and reads back what it writes', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const server = await serverWith(t)
  await server.ask('create role app login')
  await server.ask(
    `create database app owner app template template0 encoding 'UTF8' locale_provider icu icu_locale 'de-DE'`,
  )
  // What its path leads to, were it looked along before it is set.
  await server.ask(
    `create schema theirs; grant usage on schema theirs to app;
     create table theirs.partners (nothing int); create table theirs.migrations (nothing int);
     create function theirs.pg_is_in_recovery() returns bool language sql as 'select true';
     create function theirs.set_config(text, text, bool) returns text language sql as $$ select 'no' $$;
     create function theirs.length(text) returns int language sql as 'select 0';
     create function theirs.never(bigint, bigint) returns bool language sql as 'select false';
     create operator theirs.= (leftarg = bigint, rightarg = bigint, function = theirs.never)`,
    'app',
  )
  for (const [name, [theirs]] of Object.entries(SET))
    await server.ask(`alter role app set ${name} = ${name === 'search_path' ? theirs : `'${theirs}'`}`)
  const url = server.url('app', 'app')
  const world = await openWorld(t, async (t, clock) => {
    const store = await openStore(url, { clock, create: true })
    t.after(() => store.close())
    return store
  })
  const connection = connectTo(t, url)
  const seen = await connection.look((tx) =>
    tx.all(
      query<{ name: string; value: string }>('select name, current_setting(name) as value from pg_settings'),
    ),
  )
  const values = new Map(seen.map(({ name, value }) => [name, value]))
  for (const [name, [theirs, ours]] of Object.entries(SET))
    assert.equal(values.get(name)?.replaceAll('"', ''), ours ?? theirs, name)

  const [back] = await connection.look((tx) =>
    tx.all(
      query<object>(
        `select :texts::text[] as texts, '{1,null}'::bigint[] as numbers, 0.1::float8 + 0.2 as sum, 'a\\b' as text`,
      ),
      {
        texts: ['a', null, 'null'],
      },
    ),
  )
  assert.deepEqual(back, { texts: ['a', null, 'null'], numbers: ['1', null], sum: 0.1 + 0.2, text: 'a\\b' })

  const { store, acme } = world
  const first = await firstTranche(world)
  await report(store, acme, first.executionId, filled(first.amount))
  for (let day = 0; day < 2; day++) {
    world.advance(86_400_000)
    await tick(world, '61000')
    for (const { executionId, amount } of await poll(store, acme))
      await report(store, acme, executionId, filled(amount))
  }
  assert.deepEqual(await store.findFaults(), [])
  // In the order of their bytes, as a file has them, whatever the locale of the database would have.
  const ordered = await server.ask(
    `select c.relname || '.' || a.attname as name from pg_attribute a join pg_class c on c.oid = a.attrelid
     where c.relnamespace = 'tranche'::regnamespace and c.relkind = 'r' and a.attnum > 0
       and a.attcollation not in (0, '"C"'::regcollation)`,
    'app',
  )
  assert.deepEqual(ordered, [{ name: 'migrations.sha256' }])
  for (const slug of ['b-b', 'bb', 'b1', 'ab'])
    await store.addPartner(
      { partnerSlug: slug, name: slug },
      { osUser: 'test', action: 'test', subject: slug, detail: {} },
    )
  const slugs = (await store.listPartners()).map(({ partnerSlug }) => partnerSlug)
  assert.deepEqual(slugs.slice(2), ['ab', 'b-b', 'b1', 'bb'])
  const tables = await server.ask('select count(*)::int as n from theirs.partners', 'app')
  assert.deepEqual(tables, [{ n: 0 }])
})

test('a role that acts as another, and settings that an address asks for', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const server = await serverWith(t)
  await server.ask('create role owning; create role app login; grant owning to app')
  await server.ask('create database app owner owning')
  await server.ask('alter role app set role = owning')
  const url = `${server.url('app', 'app')}&options=${encodeURIComponent('-c search_path=public -c extra_float_digits=-9 -c work_mem=1MB')}`
  const store = await openStore(url, { clock: () => T0, create: true })
  t.after(() => store.close())
  const [owner] = await server.ask<{ owner: string }>(
    `select nspowner::regrole::text as owner from pg_namespace where nspname = 'tranche'`,
    'app',
  )
  assert.equal(owner?.owner, 'owning')
  const shown = await connectTo(t, url).look((tx) =>
    tx.get(
      query<object>(`select current_setting('search_path') as path, current_setting('extra_float_digits') as digits,
      current_setting('work_mem') as memory`),
    ),
  )
  assert.deepEqual(shown, { path: 'tranche', digits: '1', memory: '1MB' })
})

test('what the server logs of statements holds no key, and no value where it is told to leave them out', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const server = await serverWith(t, { log_statement: 'all', log_parameter_max_length: '0' })
  const db = server.url('postgres')
  const succeed = async (...argv: string[]): Promise<string> => {
    const { code, out, err } = await runHere(['--db', db, ...argv])
    assert.equal(code, 0, err)
    return out.trim()
  }
  await succeed('partner', 'create', 'acme', '--name', 'Acme')
  const log = () => readFileSync(join(server.folder, 'log'), 'utf8')
  const kept = await succeed('key', 'create', 'acme', '--env', 'test')
  assert.match(log(), /insert into api_keys/)
  await server.ask('alter role tranche set log_parameter_max_length = -1')
  const logged = await succeed('key', 'create', 'acme', '--env', 'test')
  for (const key of [kept, logged]) assert.ok(!log().includes(key.slice(9)))
  const hash = (key: string) => createHash('sha256').update(key).digest('hex')
  assert.ok(!log().includes(hash(kept)))
  // What docs/postgres.md warns of.
  assert.ok(log().includes(hash(logged)))
})
