// docs/levers.md, block by block, as somebody would paste it in the middle of the night.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { DAY_MS, plus } from '../../src/core/time.ts'
import { machine } from '../../src/machine.ts'
import {
  assertSound,
  confirmPath,
  executionsOf,
  link,
  PRICE,
  plan,
  poll,
  succeed,
  USERS,
} from '../http/steps.ts'
import { startTicker } from '../price/ticker.ts'
import { paste } from '../support/process.ts'
import { blocksOf } from '../support/samples.ts'
import { fill, type Service, startService, USER } from '../support/service.ts'

const ROOT = join(import.meta.dirname, '../..')
const GUIDE = readFileSync(join(ROOT, 'docs/levers.md'), 'utf8')
const SECTIONS = new Map(
  GUIDE.split(/^## /m)
    .slice(1)
    .map((part) => [part.slice(0, part.indexOf('\n')), part] as const),
)
const taken = new Set<string>()

type Ids = { ID?: string; PLAN?: string; KEY_ID?: string; FEED?: string }

/** Pastes the blocks of one section into a shell that stops at the first failure. */
async function pasteSection(
  t: TestContext,
  service: Service,
  section: string,
  ids: Ids = {},
): Promise<string> {
  const body = SECTIONS.get(section) ?? assert.fail(`no section ${section}`)
  taken.add(section)
  const blocks = blocksOf(body, 'sh')
  assert.ok(blocks.length > 0)
  const env = { TRANCHE_DB: service.file, ...ids }
  const { code, out, err } = await paste(t, blocks.join('\n'), { cwd: dirname(service.file), env })
  assert.equal(code, 0, `${section}: ${err}`)
  return out
}

test('every block of the guide does what it says', async (t) => {
  const service = await startService(t)
  // The commands go by the real clock.
  service.setClock(machine.clock())
  const user = { ...USER, partner_user_id: 'user-1', email: 'ann@example.org' }
  await link(service, 'user-1')
  await succeed(service, 'POST', USERS, { ...user, consent_timestamp: '2026-01-01T00:00:00Z' })
  await plan(service, 'user-1', 'p')
  await service.tick(PRICE)
  const ID = String((await poll(service)).get('p')?.[0]?.execution_id)

  // Concurrently, because each command is a process to wait for.
  const { origin } = await startTicker(t, { body: '{"price":"64250.50"}' })
  const aside = Promise.all([
    pasteSection(t, service, 'Look first'),
    pasteSection(t, service, 'What a user agreed to'),
    pasteSection(t, service, 'A user wants to be forgotten'),
    pasteSection(t, service, 'The price feed is down', { FEED: `${origin}#/price` }),
    pasteSection(t, service, 'A partner does not poll'),
    pasteSection(t, service, 'A partner fails its orders'),
    pasteSection(t, service, 'The disk fills up'),
  ])
  assert.match(await pasteSection(t, service, 'A partner must stop buying'), /^acme +acme +active +yes/m)
  const cancelled = await pasteSection(t, service, 'An instruction nobody confirms', { ID })
  assert.match(cancelled, /cancel_reason +venue lost/)
  const late = fill('o1', '10.00')
  assert.equal((await service.call('POST', confirmPath(ID), late)).status, 409)
  assert.match(await pasteSection(t, service, 'A fill that was refused', { ID }), /^status +filled/m)
  assert.equal((await succeed(service, 'POST', confirmPath(ID), late)).replayed, true)
  const adjusted = await pasteSection(t, service, 'A fill with wrong amounts', { ID })
  assert.match(adjusted, /usd_difference +-0\.50/)
  assert.match(adjusted, /agree/)
  const live = { key: await service.issueKey('acme', 'live') }
  await link(service, 'user-1', live)
  const PLAN = 'lost-plan'
  await plan(service, 'user-1', PLAN, {}, live)
  const found = await pasteSection(t, service, 'A purchase that the ledger does not know', { PLAN })
  assert.match(found, /already_recorded +no[\s\S]*agree/)
  await plan(service, 'user-1', PLAN, { status: 'cancelled' }, live)
  const [looked = '', agreed = '', erased = '', fed = '', silent = '', , disk = ''] = await aside
  assert.match(fed, /^price_usd +64250\.50$/m)
  assert.match(silent, /^key_\S+ +sse_test_/m)
  assert.match(disk, /tranche\.db$/m)
  assert.match(await pasteSection(t, service, 'Ticks have stopped'), /^last tick +\d{4}-/m)
  assert.match(agreed, /^v\S* +2026-01-01T00:00:00\.000Z +\d{4}-/m)
  assert.match(looked, /^ok$/m)
  assert.match(erased, /gone_from_file +yes/)
  const [leaked] = await service.store.listKeys('acme')
  await pasteSection(t, service, 'A key has leaked', { KEY_ID: leaked?.keyId ?? '' })
  const [old] = await service.store.listKeys('acme')
  service.setClock(old?.revokedAt ?? assert.fail('it is revoked'))
  assert.equal((await service.call('GET', '/partner/v1/me')).status, 401)
  const key = readFileSync(join(dirname(service.file), 'new-key.txt'), 'utf8').trim()
  assert.equal((await service.call('GET', '/partner/v1/me', undefined, { key })).status, 200)
  service.setClock(plus(machine.clock(), 30 * DAY_MS))
  await service.tick()
  service.setClock(machine.clock())
  const back = await pasteSection(t, service, 'The clock was wrong')
  assert.match(back, /^1 window to bring back\.$/m)
  assert.match(back, /^1 window brought back\.$/m)
  assert.deepEqual([...SECTIONS.keys()].toSorted(), [...taken].toSorted(), 'no section is left out')
  assert.equal((await executionsOf(service, 'p')).length, 1)
  await assertSound(service)
})
