// The pieces of init and demo that need no process of their own: files that are alike, init's promise about the first
// tranche, and the path, the names and the quoting of demo.

import assert from 'node:assert/strict'
import { linkSync, readFileSync, writeFileSync } from 'node:fs'
import { join, matchesGlob } from 'node:path'
import { test } from 'node:test'
import { nextCommands, programName } from '../../src/cli/demo/show.ts'
import { syntheticPath } from '../../src/cli/demo/simulated-partner.ts'
import { feedWords, type Outcome, reportLines } from '../../src/cli/init/dialogue.ts'
import { haveSameContent } from '../../src/cli/init/file-steps.ts'
import { HOUR_MS, MINUTE_MS } from '../../src/core/time.ts'
import { temporaryFolder } from '../support/database.ts'
import { openShell, PLAN, startService, USER } from '../support/service.ts'

const MIB = 1 << 20

test('files are alike when every byte is', (t) => {
  const folder = temporaryFolder(t)
  const [one, other] = [join(folder, 'one'), join(folder, 'other')]
  for (const size of [0, 1, MIB - 1, MIB, MIB + 1, 2 * MIB]) {
    const content = Buffer.alloc(size, 'tranche')
    writeFileSync(one, content)
    writeFileSync(other, content)
    assert.ok(haveSameContent(one, other), `${size} bytes`)
    if (size === 0) continue
    writeFileSync(other, content.subarray(1))
    assert.ok(!haveSameContent(one, other), `${size} bytes and one less`)
    content[size - 1] = 0
    writeFileSync(other, content)
    assert.ok(!haveSameContent(one, other), `the last of ${size} bytes`)
  }
  linkSync(one, join(folder, 'link'))
  assert.ok(haveSameContent(one, join(folder, 'link')))
  assert.throws(() => haveSameContent(one, join(folder, 'none')), { code: 'ENOENT' })
})

// The time of a plan's first tranche without a price feed, as init and docs/reference.md promise it.

const GUIDE = readFileSync(join(import.meta.dirname, '../../docs/reference.md'), 'utf8').replace(/\s+/g, ' ')
const PROMISED: [frequency: string, amount: string, hours: number, words: RegExp][] = [
  ['daily', '30.00', 2, /two\s+hours after a daily plan of 30\.00 USD or\s+more begins/],
  ['weekly', '140.00', 3, /three hours after a weekly plan of\s+140\.00/],
  ['bi-weekly', '280.00', 3, /a bi-weekly plan of\s+280\.00/],
]

for (const [frequency, amount, hours, words] of PROMISED) {
  test(`a ${frequency} plan of ${amount} fires after ${hours} hours, and a smaller one later`, async (t) => {
    const service = await startService(t)
    await service.call('POST', '/partner/v1/users', USER)
    const plan = { ...PLAN, frequency, amount_usd: amount }
    const smaller = { ...plan, partner_plan_id: 'smaller', amount_usd: '10.00' }
    for (const one of [plan, smaller]) await service.call('POST', '/partner/v1/plans', one)
    await service.tick()
    service.advance(hours * HOUR_MS - MINUTE_MS)
    assert.equal((await service.tick()).executionsCreated, 0)
    service.advance(MINUTE_MS)
    assert.equal((await service.tick()).executionsCreated, 1)
    const due = (await service.call('GET', '/partner/v1/executions/due')).body
    assert.equal(due[0].partner_plan_id, plan.partner_plan_id)
    const said = feedWords({ feed: 'none', price_usd: null, complaints: [] })
    for (const text of [said, GUIDE]) assert.match(text, words)
  })
}

// A typed price.

test('a typed price that no market has is taken, and warned of', async (t) => {
  const shell = openShell(t)
  await shell.tranche(['partner', 'create', 'acme', '--name', 'Acme'])
  const warned = async (...argv: string[]) => {
    const { code, err } = await shell.tranche(['tick', ...argv])
    assert.equal(code, 0)
    return err
  }
  assert.match(await warned('--price', '1'), /^warning: --price 1\.00 is a price that no market has had: /)
  assert.equal(await warned('--price', '1.9'), '', 'it is near the newest price')
  shell.advance(24 * 3_600_000 + 1)
  assert.equal(await warned('--price', '60000'), '', 'nobody knows how far a day takes it')
  assert.equal(await warned('--price', '30001'), '')
  shell.advance(24 * 3_600_000)
  for (const more of [['--dry-run'], []])
    assert.match(await warned('--price', '60002', ...more), /is far from the newest price, 30001\.00: /)
  assert.equal(await warned(), '')
})

// The pieces of demo that need no process of their own: its path, its names and their quoting.

test('the synthetic path is a function of its seed', () => {
  assert.deepEqual(syntheticPath(1, 500), syntheticPath(1, 500))
  assert.deepEqual(syntheticPath(1, 500), syntheticPath(1, 900).slice(0, 500))
  assert.notDeepEqual(syntheticPath(1, 500), syntheticPath(2, 500))
  assert.ok(syntheticPath(3, 40_000).every((price) => price > 0n && price % 1_000_000n === 0n))
})

const CHECKOUT = '/src/t/bin/tranche'
const NAMES = [
  ['a checkout, from its root', '/src/t', `${CHECKOUT}.mjs`, false, 'bin/tranche', CHECKOUT],
  ['a checkout, from its bin', '/src/t/bin', 'tranche.mjs', false, './tranche', CHECKOUT],
  ['a checkout, from elsewhere', '/home', `${CHECKOUT}.mjs`, false, CHECKOUT, CHECKOUT],
  ['the executable', '/src/t', '/src/t/dist/tranche', true, 'dist/tranche', '/src/t/dist/tranche'],
] as const

for (const [where, cwd, script, built, typed, absolute] of NAMES) {
  test(`the name to type again: ${where}`, () => {
    const started = { argv0: 'dist/tranche', execPath: '/src/t/dist/tranche', script, cwd, built }
    assert.deepEqual(programName(started), { typed, absolute })
  })
}

test('names that a shell or cron would take apart are quoted', () => {
  const name = { typed: 'my bin/tranche', absolute: "/it's/50%/tranche" }
  const commands = nextCommands(name, { db: 'other.db', cwd: '/home/a b' }).map(({ command }) => command)
  assert.equal(commands[0], "'my bin/tranche' --db other.db serve")
  const tick = "* * * * * '/it'\\''s/50\\%/tranche' --db '/home/a b/other.db' tick"
  assert.equal(commands.at(-1), `${tick} 2>&1 | logger -t tranche --socket-errors=on`)
})

test('init shows how to read the log of every unit, and not of the service alone', () => {
  const outcome = {
    place: { user: 'tranche', program: '/usr/local/bin/tranche', settings: '/etc/tranche/tranche.env' },
    scheduler: 'systemd',
    trial: { feed: 'none', price_usd: null, complaints: [] },
    taken: [],
    isStarted: true,
    answer: { ok: true, url: 'http://127.0.0.1:8080' },
    partner: null,
    key: null,
    isDry: false,
  } as unknown as Outcome
  const [pattern] = /(?<=journalctl -u ').*(?=')/.exec(reportLines(outcome).join('\n')) ?? []
  for (const unit of [
    'tranche.service',
    'tranche-tick.service',
    'tranche-check.service',
    'tranche-backup.service',
  ])
    assert.ok(matchesGlob(unit, pattern ?? ''), unit)
})
