// What commands do about a database because it is a file: where there is none, where there was one, what locks it.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import SQLite from 'better-sqlite3'
import { SYSTEM } from '../../src/cli/init/places.ts'
import { INSTALLED } from '../../src/store/sqlite/file/errors.ts'
import { temporaryFolder } from '../support/database.ts'
import { hasOwnMachine, onOwnMachine } from '../support/machines.ts'
import { CACHE, EXECUTABLE, finish, startServe } from '../support/process.ts'
import { errorOf, openShell, runHere, succeed, withPartner } from '../support/service.ts'

test('a folder without a database gets one, which is said loudly; --no-create refuses, with the path', async (t) => {
  const cwd = temporaryFolder(t)
  const refused = await finish(t, ['serve', '--no-create', '--port', '0'], { cwd })
  assert.deepEqual([refused.code, readdirSync(cwd)], [4, []])
  assert.equal(
    refused.err,
    `error: There is no database at ${join(cwd, 'tranche.db')}: name the right one with --db, or begin one with \`tranche partner create SLUG --name NAME\`.\n`,
  )
  const first = await startServe(t, [], { cwd })
  const { level, db, msg } = JSON.parse(await first.line('this database has no partner yet'))
  assert.deepEqual([level, db], ['warn', join(cwd, 'tranche.db')])
  assert.match(msg, /^there was no database here, so a new one was made; /)
  first.child.kill('SIGTERM')
  assert.equal(await first.ended, 0)
  const second = await startServe(t, ['--no-create'], { cwd })
  assert.match(JSON.parse(await second.line('this database has no partner yet')).msg, /^this database/)
  // A service whose database is gone is up and not ready.
  const { url } = second
  for (const name of readdirSync(cwd)) renameSync(join(cwd, name), join(cwd, `was-${name}`))
  const asked = (...more: string[]) => runHere(['health', '--url', url, ...more])
  const [up, ready, json] = await Promise.all([asked(), asked('--ready'), asked('--ready', '--json')])
  assert.deepEqual([up.code, ready.code, ready.out], [0, 1, `${url}/readyz: HTTP 503\n`])
  assert.deepEqual(JSON.parse(json.out), { ok: false, url: `${url}/readyz`, answer: 'HTTP 503' })
})

test('what a message tells to run is run on the database that --db or TRANCHE_DB has named', async (t) => {
  const cwd = temporaryFolder(t)
  const name = "it's here.db"
  const refused = await finish(t, ['--db', name, 'partner', 'list'], { cwd })
  assert.equal(refused.code, 4)
  const [, told = ''] = /begin one with `(.*)`\.$/m.exec(refused.err) ?? assert.fail(refused.err)
  const words = told
    .replace(/^tranche/, '"$0"')
    .replace('SLUG', 'acme')
    .replace('NAME', 'Acme')
  execFileSync('sh', ['-c', words, EXECUTABLE], { cwd, env: CACHE })
  assert.equal((await finish(t, ['--db', name, 'partner', 'list'], { cwd })).code, 0)
  assert.deepEqual(
    readdirSync(cwd).filter((file) => !file.startsWith(name)),
    [],
    'and no other was made',
  )

  const env = { TRANCHE_DB: join(cwd, 'gone.db') }
  const inVariable = await finish(t, ['partner', 'list'], { cwd, env })
  assert.match(
    inVariable.err,
    /gone\.db: TRANCHE_DB names it: put the right one there, or begin one with `tranche partner create SLUG/,
  )
  const given = await finish(t, ['--db', 'other.db', 'partner', 'list'], { cwd, env })
  assert.match(
    given.err,
    /other\.db: name the right one with --db, or begin one with `tranche --db other\.db par/,
  )
})

test('a restore adds a line to the audit log that it brings back', async (t) => {
  const shell = await withPartner(t)
  const copy = join(shell.folder, 'copy.db')
  await succeed(shell, 'backup', copy)
  await succeed(shell, 'restore', copy)
  const audit: { action: string }[] = JSON.parse(await succeed(shell, 'audit', '--json'))
  assert.deepEqual(
    audit.map(({ action }) => action),
    ['partner.create', 'database.restore'],
  )
})

test('a tick that meets another one does nothing, says so, and exits 0', async (t) => {
  const shell = await withPartner(t)
  const other = new SQLite(`${shell.file}-tick`)
  t.after(() => other.close())
  other.exec('begin immediate')
  const { code, out } = await shell.tranche(['tick', '--json'])
  assert.equal(code, 0)
  assert.equal(JSON.parse(out).skipped, true)
  assert.deepEqual(await shell.tranche(['tick']), { code: 0, out: '', err: '' })
})

test('exit 11 when another process keeps the database locked', async (t) => {
  const shell = await withPartner(t)
  const other = new SQLite(shell.file)
  t.after(() => other.close())
  other.exec('begin immediate')
  // The wait is over by the clock: it goes on with the timers, or this would be a real wait of fifteen busy seconds.
  let now = performance.now()
  t.mock.method(performance, 'now', () => now)
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const held = shell.tranche(['partner', 'disable', 'beta', '--json'])
  let waiting = true
  held.then(() => {
    waiting = false
  })
  while (waiting) {
    now += 1_000
    t.mock.timers.tick(1_000)
    await new Promise((resolve) => setImmediate(resolve))
  }
  const { code, out, err } = await held
  assert.deepEqual(
    [code, out, errorOf(err)],
    [11, '', { code: 'database_locked', message: 'The database stayed locked by another process for 15 s.' }],
  )
})

test('a file that is not a database of ours is refused and left alone', async (t) => {
  const shell = openShell(t)
  const db = new SQLite(shell.file)
  db.exec('create table notes (text)')
  db.close()
  const before = readFileSync(shell.file)
  const { code, err } = await shell.tranche(['partner', 'create', 'acme', '--name', 'Acme'])
  assert.equal(code, 2)
  assert.match(err, /^error: .+\n$/)
  assert.deepEqual(readFileSync(shell.file), before)
  assert.deepEqual(readdirSync(shell.folder), ['tranche.db'])
})

test('where a service is installed, its settings are named, and the command that is printed works when pasted', async (t) => {
  assert.deepEqual([INSTALLED.settings, INSTALLED.folder], [SYSTEM.settings, SYSTEM.folder])
  if (!hasOwnMachine(t)) return
  const { code, out, err } = await onOwnMachine(
    t,
    `useradd --system tranche
    install -m 755 "$TRANCHE" /usr/local/bin/tranche
    install -d -o tranche -m 700 /var/lib/tranche /var/cache/tranche
    install -d -m 750 /etc/tranche
    printf 'TRANCHE_DB=/var/lib/tranche/tranche.db\\nTRANCHE_CACHE=/var/cache/tranche\\n' > /etc/tranche/tranche.env
    printf '#!/bin/sh\\nexec "$@"\\n' > /usr/local/bin/sudo && chmod 755 /usr/local/bin/sudo
    runuser -u tranche -- env TRANCHE_CACHE=/var/cache/tranche tranche --db /var/lib/tranche/tranche.db partner create acme --name Acme > /dev/null
    mkdir /home/somebody && cd /home/somebody
    ! tranche status 2> /tmp/said-$$
    said=$(cat /tmp/said-$$; rm /tmp/said-$$)
    printf '%s\\n' "$said"
    command=$(printf '%s' "$said" | sed 's/.*run \`//; s/\`, or.*//; s/status$/partner list/')
    cd /
    eval "$command"
    sed -i 's/^TRANCHE_DB=.*/TRANCHE_DB=\\/srv\\/moved.db/' /etc/tranche/tranche.env
    eval "$command" 2>&1 || true`,
  )
  assert.equal(code, 0, err)
  assert.match(
    out,
    /There is no database at \/home\/somebody\/tranche\.db: the service installed here has its settings in \/etc\/tranche\/tranche\.env/,
  )
  assert.match(out, /acme/)
  assert.match(
    out,
    /at \/srv\/moved\.db: TRANCHE_DB names it: .*; the service installed here has its settings in \/etc\/tranche\/tranche\.env\.$/m,
    'the command that was just run is not told again',
  )
})
