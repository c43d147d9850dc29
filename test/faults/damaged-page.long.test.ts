// A page of the database that a disk gives back as zeros, or as noise: what is answered is what was stored, or is
// refused. FAULTS_ALL=1 takes every page, else some.

import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { openShell, PLAN, type Shell, succeed, USER } from '../support/service.ts'
import { ALL, chanceOf } from './chance.ts'

const PAGE_BYTES = 4096
const COMMANDS = [
  ['check'],
  ['plan', 'list', '--json'],
  ['execution', 'list', '--json'],
  ['user', 'list', 'acme', '--env', 'test', '--json'],
  ['billing', 'export', '--month', '2026-01', '--env', 'test', '--report', 'trades'],
]
const DAMAGED = /damaged|not a database|malformed|integrity/
const PATHS = ['/me', '/billing/monthly?month=2026-01', '/billing/monthly/users?month=2026-01']

/** A shell on a database with a key, a user, plans and trades. */
async function traded(shell: Shell): Promise<string> {
  await succeed(shell, 'partner', 'create', 'acme', '--name', 'Acme')
  const key = (await succeed(shell, 'key', 'create', 'acme', '--env', 'test')).trim()
  const call = async (method: string, path: string, body?: object) => {
    const { status, text } = await shell.call(method, `/partner/v1${path}`, key, body && JSON.stringify(body))
    assert.equal(status, 200, text)
    return JSON.parse(text)
  }
  await call('POST', '/users', USER)
  for (const partner_plan_id of ['p1', 'p2', 'p3']) await call('POST', '/plans', { ...PLAN, partner_plan_id })
  for (let pass = 0; pass < 3; pass++) {
    await succeed(shell, 'tick', '--price', '60000')
    for (const { execution_id, idempotency_key, amount_usd } of await call('GET', '/executions/due')) {
      const fill = { status: 'filled', usd_amount: amount_usd, btc_amount: '0.001', execution_price: '60000' }
      await call('POST', `/executions/${execution_id}/confirm`, {
        partner_order_id: idempotency_key,
        ...fill,
      })
    }
    shell.advance(6 * 3_600_000)
  }
  return key
}

const cleanUps = (): { after: (clean: () => unknown) => void; run: () => Promise<void> } => {
  const all: (() => unknown)[] = []
  return {
    after: (clean) => void all.push(clean),
    async run() {
      for (const clean of all.reverse()) await clean()
    },
  }
}

type Said = { name: string; isFine: boolean; text: string }

/** Everything the program says of these bytes. */
async function ask(bytes: Buffer, key: string, advanceMs: number): Promise<Said[]> {
  const ends = cleanUps()
  const shell = openShell(ends as never)
  shell.advance(advanceMs)
  try {
    writeFileSync(shell.file, bytes, { mode: 0o600 })
    const said: Said[] = []
    for (const argv of COMMANDS) {
      const { code, out, err } = await shell.tranche(argv)
      if (code !== 0) assert.match(out + err, DAMAGED, argv.join(' '))
      if (code !== 0) assert.doesNotMatch(err, /\n\s+at |SQLITE_/, argv.join(' '))
      // Without its first page it is not a database at all.
      if (argv[0] === 'check' && !/is not a database/.test(err)) assert.ok(code === 0 || code === 3, err)
      said.push({ name: argv.join(' '), isFine: code === 0, text: out })
    }
    const backup = await shell.tranche(['backup', `${shell.file}.copy`])
    if (backup.code !== 0) assert.match(backup.err, /^error: [^\n]*(damaged|not a database)[^\n]*\n$/)
    for (const path of PATHS) {
      const { status, text } = await shell
        .call('GET', `/partner/v1${path}`, key)
        .catch(({ message }: Error) => {
          assert.match(message, DAMAGED, path)
          return { status: 0, text: message }
        })
      if (status !== 0) assert.ok(status === 200 || status === 503, `${path}: ${status} ${text}`)
      said.push({ name: path, isFine: status === 200, text })
    }
    return said
  } finally {
    await ends.run()
  }
}

test('one page after the other: an answer is what was stored, or a refusal', async (t) => {
  const random = chanceOf(t)
  const shell = openShell(t)
  const key = await traded(shell)
  await succeed(shell, 'backup', `${shell.file}.copy`)
  const sound = readFileSync(`${shell.file}.copy`)
  const advanced = 18 * 3_600_000
  const truth = await ask(sound, key, advanced)
  assert.ok(truth.every(({ isFine }) => isFine))
  const pages = sound.length / PAGE_BYTES
  const stride = ALL ? 1 : 8
  let [looked, found] = [0, 0]
  for (let page = Math.floor(random() * stride); page < pages; page += stride) {
    looked += 1
    const bytes = Buffer.from(sound)
    const noise = Buffer.from(Array.from({ length: PAGE_BYTES }, () => Math.floor(random() * 256)))
    bytes.set(page % 2 === 0 ? noise : Buffer.alloc(PAGE_BYTES), page * PAGE_BYTES)
    const said = await ask(bytes, key, advanced)
    if (!said[0]?.isFine) found += 1
    for (const [i, { name, isFine, text }] of said.entries()) {
      if (isFine && i > 0) assert.equal(text, truth[i]?.text, `${name} with page ${page + 1} damaged`)
    }
  }
  assert.equal(found, looked, 'check finds every one')
})
