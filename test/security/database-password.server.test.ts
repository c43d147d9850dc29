// The password of a database is nowhere: whatever runs on it, and however it fails, its output, answers, logs, messages
// and records are searched for the password.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { promisify } from 'node:util'
import { nextCommands } from '../../src/cli/demo/show.ts'
import { holdsSecret, shownAddress, withoutSecrets } from '../../src/store/address.ts'
import { temporaryFolder } from '../support/database.ts'
import { PASSWORD, withPasswords } from '../support/postgres-server.ts'
import { finish, start, WITH_OPS } from '../support/process.ts'
import { runHere } from '../support/service.ts'
import { huntFor } from './hunt.ts'

const hunt = huntFor({ password: PASSWORD })

/** Commands that are run on a working server, and again while it is down. */
const COMMANDS = [
  ['migrate'],
  ['migrate', '--status', '--json'],
  ['partner', 'create', 'acme', '--name', 'Acme'],
  ['key', 'create', 'acme', '--env', 'test', '--json'],
  ['tick', '--price', '60000', '--json'],
  ['status'],
  ['status', '--json'],
  ['check'],
  ['check', '--json'],
  ['audit', '--json'],
  ['backup', 'copy.db'],
  ['restore', 'copy.db'],
  ['restore', 'copy.db', '--force'],
  ['copy', '--to', 'moved.db', '--seal'],
  ['tick', '--price', '60000'],
  ['copy', '--to', 'elsewhere.db', '--json'],
  ['migrate', '--status'],
  ['copy', '--unseal'],
  ['freeze', '--reason', 'a test'],
  ['resume'],
  ['billing', 'export', '--month', '2026-01'],
  ['init', '--dry-run', '--yes', '--scheduler', 'none'],
  ['completion', 'bash'],
  ['--help'],
  ['serve', '--port', 'x'],
]

/** A heartbeat monitor, and the text it received. */
async function monitor(t: TestContext): Promise<{ url: string; told: () => string }> {
  let told = ''
  const server = createServer((request, response) => {
    told += `${request.method} ${request.url} ${JSON.stringify(request.headers)}`
    request.on('data', (bytes) => {
      told += bytes
    })
    request.on('end', () => response.end())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, told: () => told }
}

test('no command shows the password of its database, whichever way it was given, well or not', async (t) => {
  const { server, url } = await withPasswords(t)
  const cwd = temporaryFolder(t)
  const db = url(PASSWORD)
  const cut = await monitor(t)
  const env = { TRANCHE_PING_URL: cut.url, HOME: cwd }
  // On a working server every other command has the option, and while it is down those that had the variable.
  const all = async (withOption: number) => {
    for (const [n, argv] of COMMANDS.entries()) {
      const [line, more] = n % 2 === withOption ? [['--db', db, ...argv], {}] : [argv, { TRANCHE_DB: db }]
      const { out, err } = await finish(t, line, { cwd, env: { ...env, ...more } })
      hunt.assertClean(out + err, argv.join(' '))
    }
  }
  await all(0)
  await server.ask('update tranche.server_line set had_standby = 1', 'app')
  await nextCommandWorks(t, { cwd, db })
  // Named beside another database, in which its address is then stored.
  const file = { cwd, env: { TRANCHE_DB: 'source.db', HOME: cwd } }
  await finish(t, ['partner', 'create', 'acme', '--name', 'Acme'], file)
  await server.ask('create database second owner app')
  for (const argv of [
    ['copy', '--to', url(PASSWORD, 'second'), '--seal'],
    ['copy', '--to', url(PASSWORD, 'second'), '--json'],
    ['copy', '--from', db, '--to', 'from-server.db'],
    ['copy', '--from', db, '--to', url(PASSWORD, 'second')],
    ['tick', '--price', '60000'],
    ['check', '--json'],
    ['copy', '--unseal', '--yes', '--json'],
    ['audit', '--json'],
  ]) {
    const { out, err } = await finish(t, argv, file)
    hunt.assertClean(out + err, argv.join(' ').replaceAll(PASSWORD, ''))
  }
  hunt.assertClean(readFileSync(join(cwd, 'source.db')), 'the file that has moved')
  const [entry] = await server.ask<{ entries: string }>(
    'select string_agg(entry::text, chr(10)) as entries from tranche.audit as entry',
    'app',
  )
  assert.match(entry?.entries ?? '', /acme/)
  hunt.assertClean(entry?.entries ?? '', 'the audit log')
  await server.stop()
  await all(1)
  assert.match(cut.told(), /POST \/fail[\s\S]*cannot be reached/)
  hunt.assertClean(cut.told(), 'what the monitor was told')
})

/** The suggested command finds the server by the variable. */
async function nextCommandWorks(t: TestContext, { cwd, db }: { cwd: string; db: string }): Promise<void> {
  const env = { TRANCHE_DB: db, HOME: cwd }
  const { out } = await finish(t, ['check', '--json'], { cwd, env })
  const findings = JSON.parse(out).findings as { kind: string; mend: string }[]
  const mend = findings.find(({ kind }) => kind === 'standby_away')?.mend ?? ''
  assert.match(mend, /^psql "\$TRANCHE_DB" -c /)
  const { stdout } = await promisify(execFile)('sh', ['-c', mend], { env: { ...process.env, ...env } })
  assert.match(stdout, /\(0 rows\)/)
}

test('nor does a service, at any level of its log, on its pages or to anyone who looks at the process', async (t) => {
  const { server, url } = await withPasswords(t)
  const cwd = temporaryFolder(t)
  const env = { TRANCHE_DB: url(PASSWORD) }
  for (const format of ['json', 'pretty']) {
    const argv = ['serve', '--port', '0', '--log-level', 'debug', '--log-format', format, ...WITH_OPS]
    const serve = start(t, argv, { cwd, env })
    const line = await serve.line('listening')
    const [api, ops] = [...(line + serve.err()).matchAll(/http:\/\/127\.0\.0\.1:\d+/g)].map(
      ([found]) => found,
    )
    const look = async () => {
      for (const path of ['/healthz', '/readyz', '/metrics', '/ops', '/docs', '/partner/v1/me'])
        for (const host of [api, ops]) {
          const answer = await fetch(`${host}${path}`, { headers: { authorization: 'Bearer sse_test_x' } })
          hunt.assertClean(JSON.stringify([...answer.headers]) + (await answer.text()), path)
        }
    }
    await look()
    if (process.platform === 'linux')
      hunt.assertClean(readFileSync(`/proc/${serve.child.pid}/cmdline`), 'the list of arguments')
    await server.ask('alter database app rename to gone').catch(() => {})
    await server.ask('select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()')
    await server.ask('alter database app rename to gone').catch(() => {})
    await look()
    await server.ask('alter database gone rename to app').catch(() => {})
    serve.child.kill('SIGTERM')
    await serve.ended
    hunt.assertClean(serve.err() + serve.out(), `the log as ${format}`)
    assert.match(serve.err(), /\*\*\*/, 'the log names the database')
  }
})

test('a hint names the variable, and a crontab line leaves the password to be filled in', () => {
  const db = `postgres://app:${PASSWORD}@db.example/tranche`
  const commands = nextCommands({ typed: 'tranche', absolute: '/usr/bin/tranche' }, { db, cwd: '/srv' })
  const text = commands.map(({ command }) => command).join('\n')
  hunt.assertClean(text, 'the next commands')
  assert.match(text, /^TRANCHE_DB="\$TRANCHE_DB" tranche serve$/m)
  assert.match(
    text,
    /^TRANCHE_DB=postgres:\/\/app:\*\*\*@db\.example\/tranche\n\* \* \* \* \* \/usr\/bin\/tranche tick /m,
  )
  const open = 'postgres://app@db.example/tranche'
  const [first] = nextCommands({ typed: 'tranche', absolute: '/usr/bin/tranche' }, { db: open, cwd: '/srv' })
  assert.equal(first?.command, `tranche --db ${open} serve`)
})

/** Further ways are in test/store/address.test.ts. */
const ADDRESSES = [
  `POSTGRESQL://app:${PASSWORD}@db/x`,
  `postgres://db/x?user=app&password=${PASSWORD}&sslpassword=${PASSWORD}`,
  `postgres://app:12/${PASSWORD}@db/x`,
  `postgres://app:12#${PASSWORD}@db/x`,
  `postgres://app:%zz${PASSWORD}@db/x`,
  `postgres://app:${PASSWORD}@db:port/x`,
  // As a file of variables leaves it, where quotes are not removed.
  `"postgres://app:${PASSWORD}@db/x"`,
]

for (const db of ADDRESSES) {
  test(`an address is shown without its password, wherever it is misplaced: ${db.replaceAll(PASSWORD, '')}`, async () => {
    hunt.assertClean(shownAddress(db), 'the address as shown')
    assert.ok(holdsSecret(db))
    for (const argv of [
      [db],
      ['--db', db, 'nothing'],
      ['partner', db],
      ['tick', `--dbb=${db}`],
      ['health', '--url', db],
    ]) {
      const { code, out, err } = await runHere(argv)
      assert.notEqual(code, 0)
      hunt.assertClean(out + err, argv[0] ?? '')
    }
    hunt.assertClean(withoutSecrets(`connect to ${db} failed`), 'a text')
  })
}
