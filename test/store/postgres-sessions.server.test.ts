// Sessions of PostgreSQL: their settings, their waits and time limits, and a key that ends while its calls are in
// flight.

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { inspect } from 'node:util'
import pg from 'pg'
import { revoke } from '../../src/core/key.ts'
import { usd } from '../../src/core/money.ts'
import { type Caller, setPartnerStatus } from '../../src/core/partner.ts'
import { HOUR_MS, plus, SECOND_MS } from '../../src/core/time.ts'
import { decisions } from '../../src/engine/pass.ts'
import { openStore } from '../../src/store/postgres/open.ts'
import { type Connection, connect } from '../../src/store/postgres/server/connection.ts'
import { LOCK } from '../../src/store/postgres/server/locks.ts'
import { openPool, type Pool } from '../../src/store/postgres/server/pool.ts'
import { LOCK_WAIT_MAX_MS } from '../../src/store/postgres/server/session.ts'
import { query } from '../../src/store/statement.ts'
import { startMonitored } from '../http/monitored.ts'
import { assertRefused, poolTo, type Server, startServer } from '../support/postgres-server.ts'
import { runHere } from '../support/service.ts'
import { hasTool } from '../support/tools.ts'
import { until } from '../support/within.ts'
import { besideStore } from './postgres.ts'
import {
  AUDIT,
  allPlans,
  each,
  enrol,
  enrolAll,
  filled,
  firstTranche,
  keyFor,
  link,
  openWorld,
  poll,
  problem,
  report,
  sendPlan,
  T0,
  tick,
} from './world.ts'

/** Settings of an administrator, and their values in our sessions; null where the administrator's are used. */
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
  const server = await serverWith(t)
  await server.ask('create role app login')
  await server.ask(
    `create database app owner app template template0 encoding 'UTF8' locale_provider icu icu_locale 'de-DE'`,
  )
  // Objects on its search path, which would be found before the path is set.
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
  const world = await openWorld(t, (_, clock) => openStore(url, { clock, create: true }))
  const connection = connectTo(t, url)
  const settings = 'select name, current_setting(name) as value from pg_settings'
  const seen = await connection.look((tx) => tx.all(query<{ name: string; value: string }>(settings)))
  const values = new Map(seen.map(({ name, value }) => [name, value]))
  for (const [name, [theirs, ours]] of Object.entries(SET))
    assert.equal(values.get(name)?.replaceAll('"', ''), ours ?? theirs, name)

  const VALUES = query<object>(
    `select :texts::text[] as texts, '{1,null}'::bigint[] as numbers, 0.1::float8 + 0.2 as sum, 'a\\b' as text`,
  )
  const [back] = await connection.look((tx) => tx.all(VALUES, { texts: ['a', null, 'null'] }))
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
  // In the order of their bytes, as in a file, whatever the locale of the database.
  const ordered = await server.ask(
    `select c.relname || '.' || a.attname as name from pg_attribute a join pg_class c on c.oid = a.attrelid
     where c.relnamespace = 'tranche'::regnamespace and c.relkind = 'r' and a.attnum > 0
       and a.attcollation not in (0, '"C"'::regcollation)`,
    'app',
  )
  assert.deepEqual(ordered, [{ name: 'migrations.sha256' }])
  for (const slug of ['b-b', 'bb', 'b1', 'ab'])
    await store.addPartner({ partnerSlug: slug, name: slug }, AUDIT)
  const added = (await store.listPartners()).slice(2)
  assert.deepEqual(each(added, 'partnerSlug'), ['ab', 'b-b', 'b1', 'bb'])
  assert.deepEqual(await server.ask('select count(*)::int as n from theirs.partners', 'app'), [{ n: 0 }])
})

test('a role that acts as another, and settings that an address asks for', async (t) => {
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
  // The case that docs/reference.md warns of.
  assert.ok(log().includes(hash(logged)))
})

// The locks that a write on PostgreSQL waits for, and the time limit of its statements.

test('the plans that are due may take ten minutes to list, however long other statements may take', async (t) => {
  const { store, pool, acme } = await besideStore(t)
  await enrol(store, acme, { partnerPlanId: 'p1' })
  const [plan] = await allPlans(store)
  await pool.query(`create function look() returns boolean language plpgsql as $$ begin
    if current_setting('statement_timeout') <> '10min' then
      raise exception 'it has %', current_setting('statement_timeout'); end if;
    return true; end $$`)
  await pool.query(
    'alter table plans rename to looked_at; create view plans as select * from looked_at where look()',
  )
  assert.deepEqual(await store.listDuePlans({ now: T0, livePrice: null, leadMs: 0 }), [plan?.planId])
  await assert.rejects(allPlans(store), /it has 1min/)
})

test('a sandbox moves when the last write of the time before is done', async (t) => {
  const { store, machine, acme, hold, waiting } = await besideStore(t)
  const { passId, ...known } = await store.beginPass(null)
  const { release } = await hold(`select pg_advisory_xact_lock_shared(${LOCK.tenant}, ${acme.tenantId})`)
  let isDone = false
  const moving = store
    .moveSandbox(acme, HOUR_MS, { wakeUpId: passId, planIds: [], decisions: decisions(known, 0, machine) })
    .then(() => {
      isDone = true
    })
  while (!isDone && (await waiting()) === 0) await pause(10)
  assert.ok(!isDone)
  await release()
  await moving
})

/** After so long the driver closes unused connections of an idle process. */
const IDLE_MAX_MS = 10_000

test('a process that nobody calls is still seen to use its database', async (t) => {
  const { store, pool } = await besideStore(t)
  await Promise.all([store.readScheduler(), store.readScheduler()])
  await pause(IDLE_MAX_MS + 1_000)
  const { rows } = await pool.query(
    `select from pg_locks join pg_database d on d.oid = database
     where locktype = 'advisory' and classid = ${LOCK.use} and datname = current_database() and pid <> pg_backend_pid()`,
  )
  assert.equal(rows.length, 1)
})

// Readiness while a server does not answer: a read takes no longer than a write.

test('ready: a read that waits at the server is answered for as soon as a write that does', async (t) => {
  const { url, hold } = await besideStore(t)
  const store = await openStore(url, { clock: null, create: false })
  t.after(() => store.close())
  const { opsUrl } = await startMonitored(t, { watched: () => store })
  const { release } = await hold('lock table ticks in access exclusive mode')
  const asked = performance.now()
  const answer = await fetch(`${opsUrl}/readyz`)
  const tookMs = performance.now() - asked
  await release()
  assert.equal(answer.status, 503)
  const { reasons } = (await answer.json()) as { reasons: string[] }
  assert.match(reasons.join(), /cannot be read: it has not answered for more than 2 s/)
  assert.ok(tookMs < LOCK_WAIT_MAX_MS / 2, `it took ${Math.round(tookMs)} ms`)
})

// A key that ends on PostgreSQL while its calls are in flight: afterwards nothing more is written by it, whatever its
// calls have waited for.

const LIFETIME_MS = SECOND_MS

/**
 * Two hosts on one database: one serves, on the other an operator works. Three instructions are open, two of them
 * delivered.
 */
async function openHosts(t: TestContext) {
  const beside = await besideStore(t)
  const { store, machine, acme } = beside
  const [ending, lasting] = [keyFor(acme, { lifetimeMs: LIFETIME_MS }), keyFor(acme)]
  for (const key of [ending, lasting]) await store.addKey(key, AUDIT)
  await enrolAll(store, acme, ['p1', 'p2', 'p3'])
  await tick({ store, machine }, '60000')
  const [first, second] = await poll(store, acme, 2)
  assert.ok(first && second)
  return {
    ...{ ...beside, other: await beside.connect(), first, second, keyId: ending.keyId },
    caller: { ...acme, keyId: ending.keyId } as Caller,
    lasting: { ...acme, keyId: lasting.keyId } as Caller,
  }
}
type Hosts = Awaited<ReturnType<typeof openHosts>>

const ends = {
  'is revoked': ({ other, keyId }: Hosts) =>
    other.changeKey(keyId, (seen, time) => ({ key: revoke(seen, time), successor: null }), AUDIT),
  'has a partner that is disabled': ({ other }: Hosts) =>
    other.changePartner('acme', (seen, now) => setPartnerStatus(seen, 'disabled', now), AUDIT),
  expires: async ({ setClock }: Hosts) => setClock(plus(T0, LIFETIME_MS)),
}

/** Everything that a call can write. */
const written = async (pool: Pool): Promise<unknown[]> =>
  (
    await pool.query(
      `select (select json_agg(e order by execution_id) from executions e) as executions,
         (select count(*) from trades) as trades, (select count(*) from users) as users,
         (select count(*) from plans) as plans, (select count(*) from webhooks) as webhooks`,
    )
  ).rows

for (const [ending, end] of Object.entries(ends))
  test(`a key that ${ending} while its calls wait for a place or a lock writes nothing any more`, async (t) => {
    const hosts = await openHosts(t)
    const { store, pool, hold, waiting, caller, lasting, first, second } = hosts
    const before = await written(pool)
    const { release } = await hold('lock table executions in access exclusive mode')
    // As many as the tenant has places for are on their way to the gate, and the others wait for a place.
    const polls = Array.from({ length: 12 }, () => poll(store, caller))
    const others = [
      sendPlan(store, caller, { partnerPlanId: 'p4' }),
      link(store, caller, 'u2'),
      store.deleteWebhook(caller),
      store.readyToTest(caller),
      report(store, caller, first.executionId, filled(usd('1'))),
    ]
    // In the same lane, by a key that stays valid.
    const byOther = report(store, lasting, second.executionId, filled(usd('1')))
    const outcomes = Promise.allSettled([...polls, ...others])
    const outcomeByOther = Promise.allSettled([byOther])
    await until(10_000, 'a call that waits', async () => (await waiting(`locktype = 'relation'`)) > 0)
    await end(hosts)
    await release()
    const isDisabled = ending.includes('disabled')
    const isRefused = problem(isDisabled ? 'partner_disabled' : 'key_invalid')
    for (const [n, outcome] of (await outcomes).entries())
      assert.ok(outcome.status === 'rejected' && isRefused(outcome.reason), `${n}: ${inspect(outcome)}`)
    const [other] = await outcomeByOther
    if (isDisabled) {
      assert.ok(other?.status === 'rejected' && isRefused(other.reason))
      assert.deepEqual(await written(pool), before)
    } else {
      assert.ok(other?.status === 'fulfilled' && other.value.kind === 'recorded')
      const { rows } = await pool.query('select execution_id from trades')
      assert.deepEqual(rows, [{ execution_id: second.executionId }])
      assert.equal((await poll(store, lasting)).length, 1, 'what was pending was handed to nobody')
    }
  })

for (const [ending, end] of Object.entries(ends))
  test(`a key that ${ending} moves, fires and wipes nothing of its sandbox any more`, async (t) => {
    const hosts = await openHosts(t)
    const { store, machine, pool, caller } = hosts
    const pass = decisions(await store.peekPass(), HOUR_MS, machine)
    await end(hosts)
    const before = await written(pool)
    const isRefused = problem(ending.includes('disabled') ? 'partner_disabled' : 'key_invalid')
    await assert.rejects(store.beginAdvance(caller, HOUR_MS, AUDIT), isRefused)
    await assert.rejects(store.fireInSandbox(caller, 'p1', pass, AUDIT), isRefused)
    await assert.rejects(store.resetSandbox(caller, AUDIT), isRefused)
    assert.deepEqual(await written(pool), before)
  })

test('a revocation waits for the writes of its key that are under way, and comes after them', async (t) => {
  const hosts = await openHosts(t)
  const { store, hold, waiting, caller, first } = hosts
  const { release } = await hold('select from windows for update')
  const confirmed = report(store, caller, first.executionId, filled(usd('1')))
  await until(10_000, 'a write that waits', async () => (await waiting(`locktype <> 'advisory'`)) > 0)
  let isRevoked = false
  const revoked = ends['is revoked'](hosts).then(() => {
    isRevoked = true
  })
  const revokes = async () => (await waiting(`locktype = 'advisory' and mode = 'ExclusiveLock'`)) > 0
  await until(10_000, 'a revocation that waits', revokes)
  // A later call, and so behind the revocation.
  const refused = assert.rejects(sendPlan(store, caller, { partnerPlanId: 'p4' }), problem('key_invalid'))
  assert.equal(isRevoked, false)
  await release()
  assert.equal((await confirmed).kind, 'recorded')
  await revoked
  await refused
})

// A pool between the service and its server: in session mode it does no harm, and any other mode is detected from the
// first connection on.

async function serverOf(t: TestContext): Promise<Server | null> {
  if (!hasTool(t, 'pgbouncer')) return null
  const server = await startServer()
  t.after(server.stop)
  return server
}

const SHARED = {
  exit: 1,
  code: 'storage_failed',
  says: /is behind a pool that .*: tranche needs one in session mode that resets each \(in PgBouncer, pool_mode = session and server_reset_query = DISCARD ALL\)\.$/,
}

for (const pool_mode of ['transaction', 'statement'])
  test(`a pool in ${pool_mode} mode is refused before anything is written`, async (t) => {
    const server = await serverOf(t)
    if (!server) return
    const url = (await poolTo(t, server, { pool_mode }))('postgres')
    await assertRefused(url, SHARED, ['migrate'])
    await assertRefused(url, SHARED)
    assert.deepEqual(await server.ask(`select 1 from pg_namespace where nspname = 'tranche'`), [])
  })

test('a pool in transaction mode is refused also while others keep its sessions busy', async (t) => {
  const server = await serverOf(t)
  if (!server) return
  const url = (await poolTo(t, server, { pool_mode: 'transaction' }))('postgres')
  let isOver = false
  const busy = Array.from({ length: 12 }, async () => {
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    while (!isOver) await client.query('select pg_sleep(0.002)')
    await client.end()
  })
  try {
    for (let i = 0; i < 4; i++) await assertRefused(url, SHARED, ['migrate'])
  } finally {
    isOver = true
    await Promise.all(busy)
  }
  assert.deepEqual(await server.ask(`select 1 from pg_namespace where nspname = 'tranche'`), [])
})

test('a pool in session mode that leaves what the one before has set is refused as soon as it does', async (t) => {
  const server = await serverOf(t)
  if (!server) return
  const url = (await poolTo(t, server, { pool_mode: 'session', server_reset_query: '' }))('postgres')
  assert.equal((await runHere(['--db', server.url('postgres'), 'migrate'])).code, 0)
  await runHere(['--db', url, 'partner', 'list'])
  await assertRefused(url, SHARED)
})

test('through a pool in session mode all goes its way, also on the second connection of a session', async (t) => {
  const server = await serverOf(t)
  if (!server) return
  const url = (await poolTo(t, server, { pool_mode: 'session', default_pool_size: '20' }))('postgres')
  const { code, err } = await runHere(['--db', url, 'migrate'])
  assert.equal(code, 0, err)
  const world = await openWorld(t, (_, clock) => openStore(url, { clock, create: false }))
  const first = await firstTranche(world)
  await report(world.store, world.acme, first.executionId, filled(first.amount))
  const others = await Promise.all([world.connect(), world.connect()])
  await Promise.all(others.map((store) => store.listPartners()))
  await tick(world, '60000')
  assert.deepEqual(await world.store.findFaults(), [])
  const shown = await runHere(['--db', url, 'partner', 'list', '--json'])
  assert.equal(shown.code, 0, shown.err)
})
