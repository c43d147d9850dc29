// Behaviour of a separate process: its environment, pipes that close, and the Node it is started with.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import SQLite from 'better-sqlite3'
import { openOffice, utc } from '../billing/books.ts'
import { addressIn, temporaryFolder } from '../support/database.ts'
import { finish, PROGRAM, SOURCE, start } from '../support/process.ts'
import { openShell, runHere } from '../support/service.ts'

const CREATE = ['partner', 'create', 'acme', '--name', 'Acme']
const [NODE, MAIN = ''] = SOURCE
/** Partners for a long list: a pipe holds 64 KiB before somebody has to read. */
const MORE_THAN_A_PIPE_HOLDS = 2_000

suite('process', { concurrency: 4 }, () => {
  test('a reader that has seen enough: exit 0, no complaint', async (t) => {
    const shell = openShell(t)
    await shell.tranche(CREATE)
    addPartners(shell.file, MORE_THAN_A_PIPE_HOLDS)
    for (const [what, argv, hangUp] of [
      ['a table', ['partner', 'list'], 'later'],
      ['JSON', ['partner', 'list', '--json'], 'later'],
      ['a table nobody reads', ['partner', 'list'], 'at once'],
    ] as const) {
      const listing = start(t, argv, { cwd: shell.folder })
      if (hangUp === 'at once') listing.child.stdout.destroy()
      else listing.child.stdout.once('data', () => listing.child.stdout.destroy())
      assert.equal(await listing.ended, 0, what)
      assert.equal(listing.err(), '', what)
    }
  })

  test('nobody reads the complaint either: the exit code still tells', async (t) => {
    const started = start(t, ['partner', 'make'], { cwd: temporaryFolder(t) })
    started.child.stdout.destroy()
    started.child.stderr.destroy()
    assert.equal(await started.ended, 2)
  })

  test('an older Node is told so in one line', async (t) => {
    const pretend = `data:text/javascript,Object.defineProperty(process.versions,'node',{value:'20.20.2'})`
    const program = [NODE, '--import', pretend, MAIN] as const
    const { code, out, err } = await finish(t, ['version'], { cwd: temporaryFolder(t), program })
    assert.deepEqual([code, out], [1, ''])
    assert.match(err, /^tranche needs Node 26 or later and this is 20\.20\.2: [^\n]+\n$/)
  })

  test('bin/tranche runs the checkout from anywhere, through a link too', async (t) => {
    const cwd = temporaryFolder(t)
    symlinkSync(join(MAIN, '../tranche'), join(cwd, 'tr'))
    const env = { PATH: process.env.PATH ?? '' }
    const ran = await finish(t, ['version', '--json'], { cwd, env, program: [join(cwd, 'tr')] })
    assert.deepEqual([ran.code, ran.err], [0, ''])
    assert.match(JSON.parse(ran.out).node, /^26\./)
  })

  // On a full disk nothing fits; a write that meets the limit of a file writes the part below it.
  for (const [what, script, said] of [
    ['cannot be written', 'exec "$0" version > /dev/full', /the disk is full: make room \(ENOSPC\)/],
    [
      'does not fit whole',
      'trap \'\' XFSZ; ulimit -f 8; exec "$0" openapi > whole.json',
      /a file may not be that large: .*\(EFBIG\)/,
    ],
  ] as const)
    test(`a result that ${what} is said to be so, and is not a success`, (t) => {
      const cwd = temporaryFolder(t)
      const { status, stderr } = spawnSync('sh', ['-c', script, PROGRAM[0]], { cwd, encoding: 'utf8' })
      assert.match(stderr, /^error: the result could not be written \(.*\); what the command has changed/m)
      assert.match(stderr, said)
      assert.doesNotMatch(stderr, /key/)
      assert.equal(status, 1)
    })

  test('a key that nobody can read is not a success', async (t) => {
    const cwd = temporaryFolder(t)
    const unread = async (...argv: string[]) => {
      const { child, err, ended } = start(t, argv, { cwd })
      child.stdout.destroy()
      return { code: await ended, err: err() }
    }
    await runHere(['--db', addressIn(cwd), ...CREATE])
    const { code, err } = await unread('key', 'create', 'acme', '--env', 'test')
    assert.equal(code, 1)
    const lost = /^error: nobody has seen the key (key_\w+) \(.*EPIPE.*\): run `tranche key revoke \1`/m
    const [, created = ''] = lost.exec(err) ?? assert.fail(err)
    const rotated = await unread('key', 'rotate', created, '--overlap', '1s', '--json')
    assert.equal(rotated.code, 1)
    assert.match(JSON.parse(rotated.err).error.message, /^nobody has seen the key key_(?!.*EPIPE.*EPIPE)/)
  })

  test('a credit note that nobody has heard of is not a success, and is named', async (t) => {
    const office = await openOffice(t, utc(2026, 8))
    office.enter('acme', 'live', [{ user: 'u', at: utc(2026, 9, 5), usd: '10000.00', btc: '0.5' }])
    office.setClock(utc(2026, 10, 3))
    const settings = join(office.folder, 'billing.json')
    const party = { name: 'Us', address: ['Here'], country: 'US' }
    const issuer = { ...party, numbers: { prefix: 'R-' } }
    writeFileSync(settings, JSON.stringify({ issuer, partners: { acme: party } }))
    await office.read(`billing issue --month 2026-10 --settings ${settings}`)
    const credit = `--db ${office.file} billing credit R-0001 --usd 1.00 --reason x --settings ${settings}`
    const asked = start(t, credit.split(' '), { cwd: office.folder })
    asked.child.stdout.destroy()
    assert.equal(await asked.ended, 1)
    assert.match(
      asked.err(),
      /^error: nobody has seen the credit note R-0002 \(.*EPIPE.*\): it is issued, .* billing invoice --number R-0002` prints it\.$/m,
    )
  })

  test('the starter finds the Node of the packages also where npm has linked none', async (t) => {
    const root = temporaryFolder(t)
    for (const name of ['bin', 'src', 'sql', 'package.json']) {
      symlinkSync(join(import.meta.dirname, '../..', name), join(root, name))
    }
    mkdirSync(join(root, 'node_modules/node-somewhere/bin'), { recursive: true })
    const said = join(root, 'node_modules/node-somewhere/bin/node')
    writeFileSync(said, '#!/bin/sh\necho "started $*"\n', { mode: 0o755 })
    copyFileSync(join(import.meta.dirname, '../../bin/tranche'), join(root, 'tranche'))
    mkdirSync(join(root, 'started'))
    renameSync(join(root, 'tranche'), join(root, 'started/tranche'))
    const { stdout } = spawnSync('sh', [join(root, 'started/tranche'), 'version'], { encoding: 'utf8' })
    assert.match(stdout, /^started --disable-sigusr1 .*bin\/tranche\.mjs version\n$/)
  })
})

function addPartners(file: string, count: number): void {
  const db = new SQLite(file)
  db.exec(`with recursive n(i) as (select 1 union all select i + 1 from n where i < ${count})
    insert into partners (partner_slug, name, status, min_tranche, created_at, updated_at)
    select 'partner-' || i, 'a name that takes some room in the listing', 'active', 500000000, 0, 0 from n`)
  db.close()
}
