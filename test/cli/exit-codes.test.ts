// What an exit code tells a script: interrupted, not found, a question that nobody could be asked.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import { isOnServer } from '../support/database.ts'
import { errorOf, openShell, withPartner } from '../support/service.ts'

for (const [how, keys, expected] of [
  ['Ctrl-C', '\u0003', 130],
  ['the end of the terminal', '\u0004', 2],
] as const) {
  test(`${how} at a question changes nothing: exit ${expected}`, async (t) => {
    const shell = await withPartner(t)
    const input = Object.assign(new PassThrough(), { isTTY: true, setRawMode: () => {} })
    input.write(keys)
    const { code, out, err } = await shell.tranche(['partner', 'disable', 'beta'], { terminal: true, input })
    assert.deepEqual([code, out], [expected, ''])
    assert.match(err, /nothing was changed\.\n$/i)
    const shown = await shell.tranche(['partner', 'show', 'beta', '--json'])
    assert.equal(JSON.parse(shown.out).status, 'active')
  })
}

test('a reset of the sandbox needs --yes wherever nobody can be asked', async (t) => {
  const shell = await withPartner(t)
  const line = ['sandbox', 'reset', 'beta']
  const input = () => Object.assign(new PassThrough(), { isTTY: true })
  const asked = [
    await shell.tranche(line),
    await shell.tranche([...line, '--json']),
    await shell.tranche([...line, '--json'], { terminal: true, input: input() }),
  ]
  for (const { code, out, err } of asked) {
    assert.deepEqual([code, out], [2, ''])
    assert.match(err, /--yes/)
  }
  assert.equal((await shell.tranche([...line, '--yes', '--json'])).code, 0)
})

test('exit 4 for a partner that does not exist, wherever it is named', async (t) => {
  const shell = await withPartner(t)
  const lines = ['execution list --partner acme', 'plan list --partner acme', 'user show acme u1 --env test']
  for (const words of [
    ...lines,
    'billing show --partner acme',
    'key list acme',
    'webhook show acme --env test',
  ]) {
    const { code, out, err } = await shell.tranche([...words.split(' '), '--json'])
    assert.deepEqual([code, out, errorOf(err).code], [4, '', 'partner_not_found'], words)
  }
})

test('exit 4 for a file that does not exist, wherever one is read', async (t) => {
  const shell = await withPartner(t)
  const file = join(shell.folder, 'no', 'file')
  const lines = [
    ['price', 'import', file],
    ['backtest', file],
    ...(isOnServer ? [] : [['restore', file]]),
    ['partner-sim', 'beta', '--key-file', file],
    ['webhook', 'listen', '--forward-to', 'http://localhost:9000', '--key-file', file],
    ['webhook', 'verify', '--signature', 'x', '--secret-file', file],
    ['serve', '--tls-cert', file, '--tls-key', file],
    ['serve', '--ops-token-file', file],
    ['serve', '--webhook-ca', file],
    ['tick', '--webhook-ca', file],
  ]
  for (const line of lines) {
    const { code, out, err } = await shell.tranche([...line, '--json'])
    const { code: why, message } = errorOf(err)
    assert.deepEqual([code, out, why], [4, '', 'file_not_found'], line.join(' '))
    assert.ok(message.includes(file), message)
  }
})

test('--version with --json is one document, in either order', async (t) => {
  const shell = openShell(t)
  const { out } = await shell.tranche(['version', '--json'])
  for (const line of [
    ['--json', '--version'],
    ['--version', '--json'],
    ['status', '--version', '--json'],
  ]) {
    assert.deepEqual(await shell.tranche(line), { code: 0, out, err: '' })
  }
})
