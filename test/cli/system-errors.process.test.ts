// Errors for a name, an address or a certificate that the system refuses: in our own words, with a remedy.

import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { createPrivateKey } from 'node:crypto'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { temporaryFolder } from '../support/database.ts'
import { CACHE, EXECUTABLE, finish } from '../support/process.ts'
import { runHere } from '../support/service.ts'

const LONG = 'n'.repeat(300)
/** Names that the system refuses; each is tried with every option that takes a name. */
const NAMES = ['plain/x', 'circle', 'circle/x', LONG, `folder/${LONG}`, `${LONG}/x`]

const EXPORT = ['billing', 'export', '--month', '2026-01', '--force', '--output']
const AGAINST = ['billing', 'reconcile', '--month', '2026-01', '--partner', 'acme', '--against']
const ISSUE = ['billing', 'issue', '--month', '2026-01', '--settings']
const LISTEN = ['webhook', 'listen', '--url', 'http://127.0.0.1:1', '--forward-to', 'http://127.0.0.1:1']
const VERIFY = ['webhook', 'verify', '--signature', 'x', '--secret-file']
const SERVE = ['--db', 'good.db', 'serve', '--port', '0']
/** The name comes last. */
const TAKING: readonly (readonly string[])[] = [
  ['status', '--db'],
  ['partner', 'create', 'bolt', '--name', 'Bolt', '--db'],
  ['tick', '--price', '60000', '--db'],
  ...[['backup'], ['restore'], ['copy', '--to'], EXPORT, AGAINST, ISSUE, ['price', 'import']].map((argv) => [
    '--db',
    'good.db',
    ...argv,
  ]),
  ['--db', 'new.db', 'copy', '--from'],
  ['backtest'],
  [...LISTEN, '--key-file'],
  VERIFY,
  ['docs', '--examples'],
  ['docs', '--deploy'],
  [...SERVE, '--tls-key', 'plain', '--tls-cert'],
  [...SERVE, '--ops-token-file'],
  [...SERVE, '--webhook-ca'],
]

/** Names of system calls, Node's own sentences, its functions, and OpenSSL's errors. */
const NOT_OURS =
  /\b(lstat|scandir|getaddrinfo|mkdtemp|uv_cwd|connect E[A-Z]|listen E[A-Z]|process\.cwd)\b|no such file or directory|not a directory|name too long|symbolic links enc|call stack|error:[0-9A-F]{8}:|routines:|undefined/

for (const name of NAMES)
  test(`every option that takes a name says what is wrong with ${name.replaceAll(LONG, 'a long name')}`, async (t) => {
    const cwd = await placeOf(t)
    for (const argv of TAKING) {
      const full = argv.map((word) => (word.endsWith('.db') || word === 'plain' ? join(cwd, word) : word))
      assertOurs(await runHere([...full, join(cwd, name)]), argv)
    }
  })

function assertOurs({ code, err }: { code: number | string; err: string }, argv: readonly string[]): void {
  const said = `${argv.join(' ')}: ${err}`
  assert.ok(code === 1 || code === 2 || code === 4, said)
  assert.doesNotMatch(err, NOT_OURS, said)
  assert.match(err, /^error: .+\n$/, said)
}

async function placeOf(t: TestContext): Promise<string> {
  const cwd = temporaryFolder(t)
  writeFileSync(join(cwd, 'plain'), 'x')
  mkdirSync(join(cwd, 'folder'))
  symlinkSync('circle', join(cwd, 'circle'))
  const made = await runHere(['--db', join(cwd, 'good.db'), 'partner', 'create', 'acme', '--name', 'Acme'])
  assert.equal(made.code, 0, made.err)
  return cwd
}

test('a command in a folder that was removed says so, and one that needs no folder works', async (t) => {
  const cwd = await placeOf(t)
  const there = (...argv: string[]) => {
    const script = 'mkdir gone; cd gone; rmdir ../gone; exec "$@"'
    const { status, stderr } = spawnSync('bash', ['-c', script, '-', EXECUTABLE, ...argv], {
      cwd,
      env: { ...process.env, ...CACHE },
      encoding: 'utf8',
    })
    return { code: status ?? -1, err: stderr }
  }
  for (const argv of [['--db', 'x.db', 'status'], ['status'], ['docs', '--examples', 'here']])
    assert.deepEqual(there(...argv), {
      code: 1,
      err: 'error: The folder that this shell is in was removed: change to another one, with `cd`.\n',
    })
  assert.equal(there('--db', join(cwd, 'good.db'), 'partner', 'list').code, 0)
})

test('what TLS does not accept is said of its file, and what cannot be listened to of its address', async (t) => {
  const cwd = await placeOf(t)
  const make = (name: string, key: string) => {
    const request = `req -x509 -nodes -days 2 -subj /CN=x -newkey ${key} -keyout ${name}.key -out ${name}.pem`
    execFileSync('openssl', request.split(' '), { cwd, stdio: 'pipe' })
  }
  make('good', 'rsa:2048')
  make('short', 'rsa:1024')
  const [pem, key] = ['good.pem', 'good.key'].map((name) => readFileSync(join(cwd, name), 'utf8'))
  writeFileSync(
    join(cwd, 'chain.pem'),
    `${pem}-----BEGIN CERTIFICATE-----\nzzzz\n-----END CERTIFICATE-----\n`,
  )
  const secret = { cipher: 'aes-256-cbc', passphrase: 'p' }
  const locked = createPrivateKey(key ?? '').export({ type: 'pkcs8', format: 'pem', ...secret })
  writeFileSync(join(cwd, 'locked.key'), locked)
  for (const [words, says] of [
    [
      '--tls-cert good.pem --tls-key locked.key',
      /locked\.key has no private key in PEM without a password\.$/m,
    ],
    ['--tls-cert short.pem --tls-key short.key', /short\.pem, .*its key is too short: RSA needs 2048 bits/],
    ['--tls-cert chain.pem --tls-key good.key', /chain\.pem, or a certificate after its first: TLS does not/],
    ['--host no-such-host.invalid', /there is no such host/],
    ['--host 192.0.2.1', /this machine does not have that address/],
    [`--host ${LONG}`, /the system does not accept it/],
  ] as const) {
    const argv = words.split(' ')
    const outcome = await finish(t, [...SERVE, ...argv], { cwd })
    assertOurs(outcome, argv)
    assert.match(outcome.err, says)
  }
})
