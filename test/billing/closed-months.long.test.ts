// A month that is over never changes by a byte.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY_MS, plus } from '../../src/core/time.ts'
import { machineAt } from '../../src/machine.ts'
import { confirmPath, link, plan, poll, succeed } from '../http/steps.ts'
import { fill, runHere, type Service, startService } from '../support/service.ts'
import { utc } from './books.ts'

const FORMS = ['summary', 'users', 'trades'].flatMap((report) =>
  ['csv', 'json'].map((format) => `--report ${report} --format ${format}`),
)
const END = utc(2026, 1)

/** The command line beside the service, with its own clock where one is given. */
const command = (service: Service, argv: string, at = service.now()) =>
  runHere(['--db', service.file, ...argv.split(' ')], { machine: machineAt(at).machine })

async function shell(service: Service, argv: string, at = service.now()): Promise<string> {
  const { code, out, err } = await command(service, argv, at)
  assert.equal(code, 0, `${argv}: ${err}`)
  return out
}

async function exportAll(service: Service, month = '2026-01'): Promise<Record<string, string>> {
  const all: Record<string, string> = {}
  for (const form of FORMS)
    all[form] = await shell(service, `billing export --month ${month} ${form} --env live`)
  for (const env of ['live', 'test'])
    all[env] = await shell(service, `billing export --month ${month} --env ${env}`)
  all.whole = await shell(service, `billing export --month ${month} --report users`)
  all.shown = await shell(service, `--json billing show --month ${month}`)
  return all
}

/** Of each report the bytes that finance files. */
async function exportFiled(service: Service): Promise<Record<string, string>> {
  const filed: Record<string, string> = {}
  for (const form of FORMS)
    if (form.endsWith('csv'))
      filed[form] = await shell(service, `billing export --month 2026-01 ${form} --env live`)
  return filed
}

async function fireAndPoll(service: Service, key: string): Promise<[plan: string, id: string][]> {
  await service.tick('60000')
  const due = await poll(service, { key })
  return [...due].flatMap(([name, executions]) =>
    executions.map((execution): [string, string] => [name, String(execution.execution_id)]),
  )
}

const confirm = (service: Service, key: string, id: string, body: unknown) =>
  service.call('POST', confirmPath(id), body, { key })

/** January: three users, a fill each, and executions of all three still out when the month ends. */
async function january(service: Service) {
  const key = await service.issueKey('acme', 'live')
  for (const id of ['u1', 'u2', 'u3']) {
    await link(service, id, { key })
    await plan(service, id, `p-${id}`, {}, { key })
  }
  for (const [name, id] of await fireAndPoll(service, key))
    assert.equal((await confirm(service, key, id, fill(`first-${name}`, '10.00'))).status, 200)
  service.setClock(plus(END, -60_000))
  const out = new Map(await fireAndPoll(service, key))
  assert.ok(out.size === 3, 'each plan has an execution out')
  // Late for the plan: cancelled in January, reported and accepted in February.
  await plan(service, 'u3', 'p-u3', { status: 'cancelled' }, { key })
  return { key, out: (user: string) => out.get(`p-${user}`) ?? '' }
}

test('whatever happens afterwards, a final month stays what it was', async (t) => {
  const service = await startService(t)
  const { key, out } = await january(service)
  service.setClock(END)
  await service.tick()
  const before = await exportAll(service)
  assert.match(before['--report summary --format csv'] ?? '', /,true,true,starter,volume,50,3,3,/)

  const later: [what: string, run: () => Promise<unknown>][] = [
    ['a confirmation that comes late', () => confirm(service, key, out('u1'), fill('late', '10.00'))],
    ['a fill of a cancelled plan', () => confirm(service, key, out('u3'), fill('too-late', '9.00'))],
    ['its acceptance', () => shell(service, `execution accept-late ${out('u3')}`)],
    [
      'a tier of this month',
      () => shell(service, 'tier set starter --rate-bps 75 --monthly-minimum-usd 9.00'),
    ],
    ['another tier', () => shell(service, 'tier set cheap --rate-bps 1')],
    ['an override', () => shell(service, 'partner set-tier acme scale')],
    [
      'a user disabled',
      () => succeed(service, 'PATCH', '/partner/v1/users/u2', { status: 'disabled' }, { key }),
    ],
    ['a partner that is new', () => shell(service, 'partner create bolt --name Bolt')],
    ['a clock stepped back', async () => service.setClock(plus(END, -30_000))],
    ['a confirmation then', () => confirm(service, key, out('u2'), fill('back', '10.00'))],
    ['a pass then', () => service.tick('1')],
    ['a partner created then', () => shell(service, 'partner create coda --name Coda')],
    ['a partner disabled', () => shell(service, 'partner disable acme')],
    ['half a year', async () => service.setClock(plus(END, 180 * DAY_MS))],
  ]
  for (const [what, run] of later) {
    await run()
    for (const [form, bytes] of Object.entries(await exportFiled(service)))
      assert.equal(bytes, before[form], `${what}: ${form}`)
  }
  assert.deepEqual(await exportAll(service), before)

  const february = await exportAll(service, '2026-02')
  const trades = february['--report trades --format csv'] ?? ''
  assert.match(trades, /,late,filled,10\.00,/, 'what came late is in the month after')
  assert.match(trades, /,too-late,filled,9\.00,/)
  assert.match(february['--report summary --format csv'] ?? '', /,scale,override,20,/)
  assert.equal((await shell(service, 'billing reconcile --month 2026-01')).includes('agree'), true)
  assert.deepEqual(await service.store.findFaults(), [])
})

test('a reset of a test environment changes no byte of what finance has filed', async (t) => {
  const service = await startService(t)
  await january(service)
  const trial = await service.issueKey('acme', 'test')
  await link(service, 'trial', { key: trial })
  await plan(service, 'trial', 'p-trial', {}, { key: trial })
  for (const [name, id] of await fireAndPoll(service, trial))
    assert.equal((await confirm(service, trial, id, fill(`trial-${name}`, '10.00'))).status, 200)
  service.setClock(END)
  await service.tick()
  const file = async () => {
    const filed: Record<string, string> = {}
    for (const form of FORMS) filed[form] = await shell(service, `billing export --month 2026-01 ${form}`)
    filed.shown = await shell(service, '--json billing show --month 2026-01')
    filed.proof = await shell(service, 'billing reconcile --month 2026-01')
    return filed
  }
  const filed = await file()
  for (const text of Object.values(filed)) assert.doesNotMatch(text, /trial|test/)
  const asked = () => shell(service, 'billing export --month 2026-01 --report trades --env test')
  assert.match(await asked(), /,acme,test,trial,/)
  await shell(service, 'sandbox reset acme --yes')
  assert.deepEqual(await file(), filed)
  assert.doesNotMatch(await asked(), /trial/)
})
