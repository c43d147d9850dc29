// The schema of a file is that of the migrations: a change that affects writes is found by check and refused by
// restore, an addition for reading is named, and none of them can hang a command.

import assert from 'node:assert/strict'
import { copyFileSync, existsSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import SQLite from 'better-sqlite3'
import { openShell, runHere, type Shell, succeed } from '../support/service.ts'

/** A backup on which `sql` was run in a shell. */
async function copyWith(shell: Shell, name: string, sql: string): Promise<string> {
  const sound = join(shell.folder, 'sound.db')
  if (!existsSync(sound)) await succeed(shell, 'backup', sound)
  const copy = join(shell.folder, name)
  copyFileSync(sound, copy)
  const db = new SQLite(copy)
  db.unsafeMode(true)
  db.exec(sql)
  db.close()
  return copy
}

const DIFFERENT: [what: string, sql: string, said: RegExp][] = [
  ['a trigger that is gone', 'drop trigger audit_keep', /trigger audit\.audit_keep is missing/],
  [
    'a trigger that somebody added',
    'create trigger mute before insert on audit begin select raise(ignore); end',
    /trigger audit\.mute was added/,
  ],
  ['a unique index that is gone', 'drop index windows_current', /unique index windows_current is missing/],
  [
    'a unique index that somebody added',
    'create unique index once on audit (action, subject)',
    /unique index once was added/,
  ],
  [
    'a column that is gone',
    'alter table webhooks drop column last_failure_reason',
    /column webhooks\.last_failure_reason is missing/,
  ],
  [
    'a condition that was loosened',
    `pragma writable_schema = on;
     update sqlite_schema set sql = replace(sql, 'min_tranche >= 1000000', 'min_tranche >= 1') where name = 'partners'`,
    /check partners \( min_tranche >= 1000000 \) is missing/,
  ],
  ['a table that is gone', 'drop table polls', /table polls is missing/],
]

test('what changes what a write does is an error of the check, and no copy with it is put back', async (t) => {
  const shell = openShell(t)
  await succeed(shell, 'partner', 'create', 'acme', '--name', 'Acme')
  for (const [what, sql, said] of DIFFERENT) {
    const copy = await copyWith(shell, `${what.replaceAll(' ', '-')}.db`, sql)
    const restored = await shell.tranche(['restore', copy, '--json'])
    assert.deepEqual([restored.code, restored.out], [1, ''], what)
    const { error } = JSON.parse(restored.err)
    assert.equal(error.code, 'bad_file')
    assert.match(error.message, said, what)
    const checked = await shell.tranche(['--db', copy, 'check', '--json'])
    assert.equal(checked.code, 3, what)
    const kinds = JSON.parse(checked.out).findings.map(({ kind }: { kind: string }) => kind)
    assert.ok(kinds.includes('schema_differs'), `${what}: ${kinds}`)
  }
  assert.match(await succeed(shell, 'partner', 'list'), /acme/, 'and the database is as it was')
})

test('what somebody added for reading is named and does no harm, nor does SQL that a tool wrote anew', async (t) => {
  const shell = openShell(t)
  await succeed(shell, 'partner', 'create', 'acme', '--name', 'Acme')
  const copy = await copyWith(
    shell,
    'dba.db',
    `create index mine on audit (action); create view months as select 1 as n;
     create table _litestream_seq (id integer primary key, seq integer); analyze;
     pragma writable_schema = on;
     update sqlite_schema set sql = replace(replace(replace(sql, 'CREATE TRIGGER ', 'create  trigger "'), ' before update', '" BEFORE
       UPDATE'), ' begin ', ' /* anew */ BEGIN ') where name = 'audit_keep'`,
  )
  const { code, err } = await shell.tranche(['restore', copy])
  assert.equal(code, 0, err)
  const named = 'Not made by tranche, and left as it is: table _litestream_seq, index mine, view months.'
  assert.ok(err.includes(named), err)
  assert.equal((await shell.tranche(['check'])).code, 0)
  const { machine } = shell
  const seen = await runHere(['--db', shell.file, 'check'], { machine, terminals: ['stderr'] })
  const harmless = /^not made by tranche, and harmless: table _litestream_seq, index mine, view months$/m
  assert.match(seen.err, harmless)
})

test('a view in the place of a table is never read, however long that would take', {
  timeout: 60_000,
}, async (t) => {
  const shell = openShell(t)
  await succeed(shell, 'partner', 'create', 'acme', '--name', 'Acme')
  const endless = `drop table reported_until; create view reported_until as
    with recursive n(x) as (select 1 union all select x + 1 from n) select x as one, x as at from n`
  const copy = await copyWith(shell, 'endless.db', endless)
  const restored = await shell.tranche(['restore', copy])
  assert.equal(restored.code, 1)
  assert.match(restored.err, /A view is in the place of the table reported_until/)
  for (const words of [['check'], ['status'], ['tick'], ['partner', 'list']]) {
    const { code, err, out } = await shell.tranche(['--db', copy, ...words])
    assert.notEqual(code, 0, words.join(' '))
    assert.match(err + out, /A view is in the place of the table reported_until/)
  }
})
