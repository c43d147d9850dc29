// The program over a database on a server: from an empty one to a service that survives its troubles.

import assert from 'node:assert/strict'
import { chmodSync, existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { periodOf } from '../../src/core/month.ts'
import { DAY_MS, monthOf } from '../../src/core/time.ts'
import { SHIFTED } from '../clock/wrong-clock.ts'
import { temporaryFolder } from '../support/database.ts'
import { hasOwnMachine, onOwnMachine, outOfOwnMachine } from '../support/machines.ts'
import {
  ourServer,
  ownDatabase,
  PASSWORD,
  proxyTo,
  type Server,
  withPasswords,
} from '../support/postgres-server.ts'
import { finish, startServe, WITH_OPS } from '../support/process.ts'
import { callAt, me } from '../support/service.ts'

/** An empty database, and command lines that find it by the variable. */
async function onServer(t: TestContext) {
  const guarded = await withPasswords(t)
  const options = { cwd: temporaryFolder(t), env: { TRANCHE_DB: guarded.url(PASSWORD) } }
  const run = (...argv: string[]) => finish(t, argv, options)
  const succeed = async (...argv: string[]): Promise<string> => {
    const { code, out, err } = await run(...argv)
    assert.equal(code, 0, `${argv.join(' ')}: ${out}${err}`)
    return out
  }
  return { ...guarded, ...options, run, succeed }
}

/** A server whose socket is for every user of a machine without a network; its data stay closed. */
async function onSocket(t: TestContext) {
  const { server, port } = await withPasswords(t)
  chmodSync(server.folder, 0o755)
  return { server, db: `postgres://app:${PASSWORD}@localhost:${port}/app?host=${server.folder}` }
}

test('migrate begins a database, also when two begin it at once, and says what is applied', async (t) => {
  const { run, succeed, server } = await onServer(t)
  assert.equal((await run('migrate', '--status')).code, 4)
  await Promise.all([succeed('migrate'), succeed('migrate'), succeed('migrate')])
  assert.match(await succeed('migrate', '--status'), /^0001_start\.sql applied 20/)
  const rows = await server.ask('select name from tranche.migrations order by name', 'app')
  const all = readdirSync(join(import.meta.dirname, '../../sql/postgres')).sort()
  assert.deepEqual(
    rows,
    all.map((name) => ({ name })),
  )
})

test('the password may be in ~/.pgpass or PGPASSWORD, and only there', async (t) => {
  const { succeed, cwd, port } = await onServer(t)
  await succeed('migrate')
  const list = (env: Record<string, string>) =>
    finish(t, ['partner', 'list'], {
      cwd,
      env: { TRANCHE_DB: `postgres://app@127.0.0.1:${port}/app`, ...env },
    })
  const home = { HOME: cwd }
  assert.match((await list(home)).err, /asks for a password/)
  assert.equal((await list({ ...home, PGPASSWORD: PASSWORD })).code, 0)
  writeFileSync(join(cwd, '.pgpass'), `127.0.0.1:${port}:app:app:${PASSWORD}\n`, { mode: 0o600 })
  const { code, err } = await list(home)
  // No word about a deprecation beside the empty list.
  assert.deepEqual([code, err], [0, 'No partners.\n'])
})

test('a serve of before an upgrade answers nothing more after it, is not ready, and says why', async (t) => {
  const { succeed, server, run, cwd, env } = await onServer(t)
  await succeed('partner', 'create', 'acme', '--name', 'Acme')
  const key = (await succeed('key', 'create', 'acme', '--env', 'test')).trim()
  const { url, opsUrl, line } = await startServe(t, [...WITH_OPS], { cwd, env })
  const poll = () => callAt({ url, key }, 'GET', 'executions/due')
  assert.equal((await poll()).status, 200)
  await server.ask("insert into tranche.migrations values ('9999_later.sql', 'x', 0)", 'app')
  const { code, err } = await run('status')
  assert.equal(code, 12)
  assert.match(
    err,
    /migration 9999_later\.sql, which this version of tranche does not know: upgrade tranche, and leave/,
  )
  // On the connections that it had before.
  const unready = await fetch(`${opsUrl}/readyz`)
  assert.equal(unready.status, 503)
  assert.match(await unready.text(), /9999_later/)
  const refused = await poll()
  assert.equal(refused.status, 503)
  assert.match(refused.headers.get('retry-after') ?? '', /^\d+$/)
  assert.deepEqual(refused.body, {
    detail: 'This host is older than its database; send the call again later.',
  })
  const { level, error } = JSON.parse(await line('"msg":"request failed"'))
  assert.equal(level, 'error')
  assert.match(
    error,
    /has migration 9999_later\.sql, which this version of tranche does not know: upgrade tranche/,
  )
  assert.equal((await me(url, key)).status, 503)
  assert.equal((await fetch(`${url}/healthz`)).status, 200)
})

test('what month it is the server says, and when an operator did something, whatever the clock of the machine', async (t) => {
  const { succeed, server, ...there } = await onServer(t)
  await succeed('partner', 'create', 'acme', '--name', 'Acme')
  const [{ month }] = JSON.parse(await succeed('--json', 'billing', 'show'))
  await succeed('partner', 'set-tier', 'acme', 'scale', '--from', monthOf(periodOf(month).end))
  const shown = await succeed('--json', 'partner', 'show', 'acme')
  const shifted = async (shiftMs: number, ...argv: string[]) => {
    const env = { ...there.env, SHIFT_MS: String(shiftMs) }
    const { code, out, err } = await finish(t, argv, { ...there, env, program: SHIFTED })
    assert.equal(code, 0, `${argv.join(' ')}: ${err}`)
    return out
  }
  for (const shiftMs of [-40 * DAY_MS, 40 * DAY_MS]) {
    assert.equal(JSON.parse(await shifted(shiftMs, '--json', 'billing', 'show'))[0].month, month)
    const own = JSON.parse(await shifted(shiftMs, '--json', 'billing', 'show', '--month', month))
    assert.equal(own[0].final, false)
    assert.equal(await shifted(shiftMs, '--json', 'partner', 'show', 'acme'), shown)
  }
  await succeed('copy', '--to', 'copy.db', '--seal')
  await shifted(40 * DAY_MS, 'copy', '--unseal', '--yes')
  await shifted(40 * DAY_MS, 'restore', 'copy.db', '--force')
  const ahead = 'select action from tranche.audit where at > extract(epoch from now()) * 1000'
  assert.deepEqual(await server.ask(ahead, 'app'), [])
})

// serve on a server that disappears as soon as serve has started: a listening service does not end for it.

test('a server that goes away while serve looks whether it has a partner: it stays, and goes on', async (t) => {
  const cwd = temporaryFolder(t)
  const server = await ourServer()
  const way = await proxyTo(t, server, new URL(await ownDatabase(cwd)).pathname.slice(1))
  const leave = async () => {
    way.leadTo({ folder: '/nowhere' })
    way.cut()
  }
  const met = way.next('never arrives', leave, 'from partners order by created_at')
  const serve = await startServe(t, [], { cwd, env: { TRANCHE_DB: way.url } })
  const putOff = await me(serve.url, 'none')
  assert.ok([401, 503].includes(putOff.status), String(putOff.status))
  await met
  // Long enough for a client that would give up: it tries three times within a fifth of a second.
  const key = `sse_test_${'a'.repeat(46)}`
  for (let asked = 0; asked < 20; asked++) {
    const { status } = await fetch(`${serve.url}/readyz`)
    assert.ok([200, 503].includes(status))
    await pause(50)
  }
  assert.equal(serve.hasEnded(), false, serve.err())
  way.leadTo(server)
  assert.equal((await me(serve.url, key)).status, 401)
})

// A command whose commit waits for a standby says so, and continues once there is one.

const setStandby = async (server: Server, name: string): Promise<void> => {
  await server.ask(`alter system set synchronous_standby_names = '${name}'`)
  await server.ask('select pg_reload_conf()')
}

test('init and a tick say after some seconds that the server waits for a standby', async (t) => {
  if (!hasOwnMachine(t)) return
  const { server, db } = await onSocket(t)
  await setStandby(server, 'gone')
  const script = `
    export TRANCHE_DB='${db}'
    tell() {
      while ! grep -qs 'waits for a standby' "/mnt/$1"; do sleep 0.2; done
      : > ${server.folder}/$1-waits
      wait $!
    }
    "$TRANCHE" init --yes --price-feed static:60000 --scheduler none > /mnt/init 2>&1 &
    tell init
    : > ${server.folder}/init-ended
    while [ ! -e ${server.folder}/again ]; do sleep 0.2; done
    "$TRANCHE" tick > /mnt/tick 2>&1 &
    tell tick
    cat /mnt/init; echo ---; cat /mnt/tick`
  const done = onOwnMachine(t, script)
  const ended = done.then(({ out, err }) => assert.fail(`it ended before: ${out}${err}`))
  ended.catch(() => {})
  const until = async (name: string): Promise<void> => {
    while (!existsSync(join(server.folder, name))) await pause(100)
  }
  await Promise.race([until('init-waits'), ended])
  await setStandby(server, '')
  await Promise.race([until('init-ended'), ended])
  await setStandby(server, 'gone')
  writeFileSync(join(server.folder, 'again'), '')
  await Promise.race([until('tick-waits'), ended])
  await setStandby(server, '')
  const { code, out, err } = await done
  assert.deepEqual([code, err], [0, ''], out)
  const [init = '', tick = ''] = out.split('---\n')
  const told =
    /postgres:\/\/app:\*\*\*@localhost.* waits for a standby before it answers \(synchronous_standby_names = gone\)/
  assert.match(init, told)
  assert.match(init, /^done .*, the database$/m)
  assert.match(tick, told)
})

// tranche init for a database on a server: its files, who may read the password, and that it may be run again.

test('root has jobs made that find the server by the settings, which hold the password and nothing else does', async (t) => {
  if (!hasOwnMachine(t)) return
  const { db } = await onSocket(t)
  const init = '"$TRANCHE" init --yes --price-feed static:60000 --scheduler'
  const script = `
    export TRANCHE_DB='${db}'
    ${init} cron --dry-run > /mnt/said 2>&1
    ${init} cron --partner acme --name Acme >> /mnt/said 2>&1
    unset TRANCHE_DB
    ${init} cron --json >> /mnt/said 2> /dev/null
    ${init} none --partner acme --name Acme >> /mnt/said 2>&1
    tranche init --undo --dry-run >> /mnt/said 2>&1
    cat /mnt/said
    echo ---
    stat -c '%n %U:%G %a' /etc/tranche/tranche.env
    grep -rl '${PASSWORD}' /etc/tranche /etc/cron.d /var/lib/tranche /var/cache/tranche
    echo ---
    cat /etc/cron.d/tranche
    echo ---
    ls -A /var/lib/tranche
    echo ---
    set -a; . /etc/tranche/tranche.env; set +a
    runuser -u tranche -- tranche tick
    runuser -u tranche -- tranche --json status
    echo ---
    sed -n 's/\\\\%/%/g; s/^17 3 \\* \\* \\* tranche \\({.*}\\) 2>&1.*/\\1/p' /etc/cron.d/tranche > /mnt/backup.sh
    rm /var/lib/tranche/backups/*
    runuser -u tranche -- sh /mnt/backup.sh > /dev/null
    tranche --json --db /var/lib/tranche/backups/tranche-*.db partner list
    echo ---
    for name in $(compgen -e TRANCHE_); do [ $name = TRANCHE_CACHE ] || unset $name; done
    mkdir -m 700 /home/found && mv /var/lib/tranche/backups/tranche-*.db /home/found/copy.db
    chown root: /home/found/copy.db && chmod 600 /home/found/copy.db && cd /home
    tranche --json restore --force /home/found/copy.db 2> /mnt/said
    grep -c 'as the user tranche' /mnt/said
    ls -A /home/found; ls -d /tmp/tranche-restore-* 2> /dev/null || true`
  const out = await outOfOwnMachine(t, script)
  const [said = '', settings, cron = '', folder, status = '', backedUp = '', restored = ''] =
    out.split('---\n')
  assert.doesNotMatch(said, new RegExp(PASSWORD))
  assert.match(said, /would.*postgres:\/\/app:\*\*\*@localhost/)
  assert.match(said, /done {5}postgres:\/\/app:\*\*\*@localhost.*, the database$/m)
  const again = JSON.parse(said.split('\n').find((line) => line.startsWith('{')) ?? '')
  assert.deepEqual(
    again.steps.filter(({ state }: { state: string }) => state !== 'already'),
    [],
  )
  assert.equal(settings, '/etc/tranche/tranche.env root:tranche 640\n/etc/tranche/tranche.env\n')
  assert.match(cron, /tranche tick/)
  assert.match(
    said,
    /^left .*\/var\/lib\/tranche\/, the backups; the database stays on its server, postgres:/m,
  )
  assert.equal(JSON.parse(backedUp)[0].partner_slug, 'acme', 'the job of the night makes a backup')
  assert.match(restored, /"frozen":true[^\n]*\n1\ncopy\.db\n$/, 'a copy that only root may read')
  assert.equal(folder, 'backups\n')
  assert.match(JSON.parse(status).last_tick_at, /^20/)
})

test('the jobs go from a file to a server and back only when the former one has moved', async (t) => {
  if (!hasOwnMachine(t)) return
  const { db } = await onSocket(t)
  const file = '/var/lib/tranche/tranche.db'
  const script = `
    init() { "$TRANCHE" init --yes --price-feed static:60000 --scheduler cron "$@" 2>&1; }
    copy() { runuser -u tranche -- tranche copy --seal "$@" > /dev/null; }
    used() { grep '^TRANCHE_DB=' /etc/tranche/tranche.env | cut -c-15; }
    init --partner acme --name Acme > /dev/null
    export TRANCHE_DB='${db}'
    init || echo "exit $?"
    used
    psql -Atqc "select 'schemas: ' || count(*) from pg_namespace where nspname = 'tranche'" "$TRANCHE_DB"
    echo ---
    copy --from ${file}
    init > /dev/null
    used
    runuser -u tranche -- tranche partner list --json
    echo ---
    mv ${file} ${file}.old
    TRANCHE_DB=${file} init || echo "exit $?"
    copy --to ${file}
    TRANCHE_DB=${file} init > /dev/null
    used
    unset TRANCHE_DB
    set -a; . /etc/tranche/tranche.env; set +a
    runuser -u tranche -- tranche tick`
  const out = await outOfOwnMachine(t, script)
  assert.doesNotMatch(out, new RegExp(PASSWORD))
  const [refused = '', moved = '', back = ''] = out.split('---\n')
  assert.match(refused, /^error: The jobs use \/var\/lib\/tranche\/tranche\.db, which has partners .*--seal/)
  assert.match(refused, /\nexit 5\nTRANCHE_DB=\/var\nschemas: 0\n$/)
  assert.match(moved, /^TRANCHE_DB='pos\n.*acme/)
  assert.match(back, /^error: The jobs use postgres:\/\/app:\*\*\*@.*\nexit 5\nTRANCHE_DB=\/var\n$/)
})
