// Keys and secrets are nowhere: they are issued, used, misused and rotated, calls fail with a stack, and then
// everything that the executable has left is searched for them.

import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import SQLite from 'better-sqlite3'
import { keyHash } from '../../src/keys.ts'
import { exchange } from '../http/raw.ts'
import { trancheHere } from '../store/copies.ts'
import { temporaryFolder } from '../support/database.ts'
import { finish, startQuietServe } from '../support/process.ts'
import { PLAN, USER } from '../support/service.ts'
import { type Hunt, huntFor } from './hunt.ts'

/** The first level logs every line; the levels between the two, a part of them. */
const LEVELS = ['debug', 'error']
const OPS_TOKEN = 'ops-token-7c1f0a94b3e2d586'
const SERVE = ['--tick-every', 'off', '--webhook-allow-cidr', '127.0.0.0/8', '--ops-token-file', 'token']

type Keys = { old: string; live: string; key: string; keyId: string }

/** A partner with a key of each environment; the test key has been rotated. */
async function issue(cwd: string): Promise<Keys> {
  const json = async (...argv: string[]) => {
    const { code, out, err } = await trancheHere(join(cwd, 'tranche.db'), ...argv, '--json')
    assert.equal(code, 0, err)
    return JSON.parse(out)
  }
  await json('partner', 'create', 'acme', '--name', 'Acme')
  const { key: live } = await json('key', 'create', 'acme', '--env', 'live')
  const first = await json('key', 'create', 'acme', '--env', 'test', '--label', 'first')
  const { key, key_id } = await json('key', 'rotate', first.key_id, '--overlap', '1s')
  return { old: first.key, live, key, keyId: key_id }
}

/** Uses the key properly, registers a webhook, and returns its secret. */
async function use({ url }: { url: string }, { key, live }: Keys): Promise<string> {
  const headers = { authorization: `Bearer ${key}` }
  const post = async (path: string, body: object) => {
    const answer = await fetch(`${url}/partner/v1/${path}`, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
    })
    assert.equal(answer.status, 200, path)
    return (await answer.json()) as { secret?: string }
  }
  await post('users', { ...USER, api_key: key, [live]: true })
  await post('plans', { ...PLAN, authorization: `Bearer ${live}` })
  return String((await post('webhooks', { url: 'https://127.0.0.1:9/hook', secret: live })).secret)
}

/** Puts a secret into wrong places, with a valid key beside it and without; returns all answers. */
async function misuse({ url }: { url: string }, secret: string, key: string): Promise<string> {
  const answers: string[] = []
  const call = async (path: string, options: RequestInit = {}) => {
    const answer = await fetch(url + path, options)
    answers.push(JSON.stringify([path.includes(secret) ? '' : path, ...answer.headers]), await answer.text())
  }
  const right = { authorization: `Bearer ${key}` }
  for (const headers of [{}, right]) {
    for (const path of ['/partner/v1/me?key=', '/partner/v1/', '/', '/metrics?token=', '/healthz?key='])
      await call(path + secret, { headers })
    await call(`/partner/v1/users/${secret}`, { method: 'PATCH', headers, body: '{"status":"disabled"}' })
    await call(`/partner/v1/executions/${secret}/confirm`, { method: 'POST', headers, body: '{}' })
    for (const name of ['x-api-key', 'x-request-id', 'user-agent', 'cookie', 'proxy-authorization', 'expect'])
      await call('/partner/v1/me', { headers: { ...headers, [name]: secret } }).catch(() => {})
    for (const body of [`{"${secret}`, `"${secret}"`, JSON.stringify({ ...PLAN, frequency: secret }), secret])
      await call('/partner/v1/plans', { method: 'POST', headers, body })
  }
  for (const scheme of ['', 'Basic ', 'bearer ', 'Token ', 'Bearer  ', 'Bearer "', 'Bearer x'])
    await call('/partner/v1/me', { headers: { authorization: scheme + secret } })
  for (const path of ['/metrics', '/healthz', '/readyz'])
    await call(path, { headers: { authorization: `Bearer ${secret}` } })
  for (const bytes of [
    `${secret}\r\n\r\n`,
    `GET /${secret} HTTP/9.9\r\n\r\n`,
    `GET / HTTP/1.1\r\n${secret}\r\n\r\n`,
    `GET / HTTP/1.1\r\nHost: ${secret}\r\nHost: ${secret}\r\n\r\n`,
    `GET / HTTP/1.1\r\nHost: a\r\nContent-Length: ${secret}\r\n\r\n`,
    `POST /partner/v1/users HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nAuthorization: Bearer ${key}\r\n\r\n${secret}\r\n`,
  ]) {
    const { headers, body } = await exchange(url, [bytes])
    answers.push(JSON.stringify([...headers]), body)
  }
  return answers.join('\n')
}

/** Makes the next call fail unexpectedly: 500, with a stack in the log. */
function breakDatabase(cwd: string): void {
  const db = new SQLite(join(cwd, 'tranche.db'))
  db.exec('ALTER TABLE users RENAME TO gone')
  db.close()
}

/** A pass by a separate process, as a scheduler runs it, and an operator's commands, with their outputs. */
async function printed(t: TestContext, cwd: string, lines: string[][]): Promise<[string, string][]> {
  const all: [string, string][] = []
  const tick = ['tick', '--price', '60000', '--webhook-allow-cidr', '127.0.0.0/8', '--json']
  const ticked = await finish(t, tick, { cwd })
  all.push(['tick', ticked.out + ticked.err])
  for (const argv of lines) {
    const { out, err } = await trancheHere(join(cwd, 'tranche.db'), ...argv)
    all.push([argv.join(' '), out + err])
  }
  return all
}

const COMMANDS = (keyId: string, copies: string): string[][] => [
  ['key', 'list', 'acme'],
  ['key', 'list', 'acme', '--json'],
  ['webhook', 'show', 'acme', '--env', 'test'],
  ['webhook', 'show', 'acme', '--env', 'test', '--json'],
  ['webhook', 'test', 'acme', '--env', 'test', '--webhook-allow-cidr', '127.0.0.0/8'],
  ['partner', 'show', 'acme', '--json'],
  ['audit', '--json'],
  ['status', '--json'],
  ['check'],
  ['backup', join(copies, 'backup.db')],
  ['billing', 'export', '--month', '2026-01', '--output', join(copies, 'export.csv')],
  ['key', 'revoke', keyId, '--json'],
]

suite('secrets', () => {
  test('no key is in a log, an answer, a file, a process or what a command prints, whatever the log level', async (t) => {
    const cwd = temporaryFolder(t)
    writeFileSync(join(cwd, 'token'), OPS_TOKEN)
    const copies = join(cwd, 'copies')
    mkdirSync(copies)
    const keys = await issue(cwd)
    // Requests readiness and the metrics.
    const headers = { authorization: `Bearer ${OPS_TOKEN}` }
    const formats = [...LEVELS.map((level) => [level, 'json']), ['debug', 'pretty']] as [string, string][]
    const all = await Promise.all(
      formats.map(([level, format]) =>
        startQuietServe(t, [...SERVE, '--log-level', level, '--log-format', format], { cwd, headers }),
      ),
    )
    const secrets: Record<string, string> = { ...keys, token: OPS_TOKEN }
    delete secrets.keyId
    const keysAlone = huntFor({ old: keys.old, live: keys.live, key: keys.key, token: OPS_TOKEN })
    let answered = ''
    for (const [i, one] of all.entries()) {
      const secret = await use(one, keys)
      secrets[`webhook ${i}`] = secret
      // The services answer alike: the one that logs every line gets every wrong secret.
      const wrongs = i === 0 ? [keys.key, keys.live, secret] : [i === 1 ? keys.key : secret]
      for (const wrong of wrongs) answered += await misuse(one, wrong, keys.key)
    }
    const hunt = huntFor(secrets)
    hunt.assertClean(answered, 'an answer')
    for (const { url, child } of all) {
      hunt.assertClean(await (await fetch(`${url}/metrics`, { headers })).text(), 'the metrics')
      for (const file of ['cmdline', 'environ']) {
        if (process.platform !== 'linux') continue
        hunt.assertClean(readFileSync(`/proc/${child.pid}/${file}`), `/proc/${child.pid}/${file}`)
      }
    }
    for (const [line, text] of await printed(t, cwd, COMMANDS(keys.keyId, copies)))
      hunt.assertClean(text, line)
    assertFiles(cwd, keys, keysAlone, secrets[`webhook ${all.length - 1}`] ?? '')

    // The live key still works: the other one is revoked.
    breakDatabase(cwd)
    for (const { url } of all) {
      const headers = { authorization: `Bearer ${keys.live}` }
      const failed = await fetch(`${url}/partner/v1/users`, {
        method: 'POST',
        headers,
        body: JSON.stringify(USER),
      })
      assert.equal(failed.status, 500)
    }
    for (const [line, text] of await printed(t, cwd, [['user', 'list', 'acme', '--env', 'test']]))
      hunt.assertClean(text, line)
    for (const [i, { child, ended, err, out }] of all.entries()) {
      child.kill('SIGTERM')
      await ended
      const log = err() + out()
      assert.match(log, /no such table[\s\S]*\bat /, 'the log has a stack')
      hunt.assertClean(log, `the log at ${formats[i]}`)
    }
  })
})

/** The database, its side files, its backup and an export: no key, but the hash of each. */
function assertFiles(cwd: string, { key, live, old }: Keys, hunt: Hunt, webhookSecret: string): void {
  const names = readdirSync(cwd).filter((name) => name !== 'token' && name !== 'copies')
  for (const name of ['tranche.db', 'tranche.db-wal', 'tranche.db-shm', 'tranche.db-tick'])
    assert.ok(names.includes(name), name)
  for (const name of names) hunt.assertClean(readFileSync(join(cwd, name)), name)
  hunt.assertCleanFolder(join(cwd, 'copies'))
  const backup = readFileSync(join(cwd, 'copies/backup.db'))
  for (const one of [key, live, old]) assert.ok(backup.includes(keyHash(one)), 'the hash is there')
  // Signing needs the secret itself: the page says that it is in the file.
  assert.ok(backup.includes(webhookSecret), 'the secret of the webhook is there')
}
