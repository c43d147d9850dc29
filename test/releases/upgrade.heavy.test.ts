// An upgrade and the way back with two real executables, by the commands of the guides, on a file and on a server. The
// partner is the sample of docs/examples, and its venue's book has the real purchases.

import assert from 'node:assert/strict'
import { cpSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { formatInstant, type Instant } from '../../src/core/time.ts'
import { machine } from '../../src/machine.ts'
import { EXAMPLES, HURRY, ordersIn, rewrite, SAMPLES } from '../examples/stage.ts'
import { each } from '../store/world.ts'
import { temporaryFolder } from '../support/database.ts'
import { EXECUTABLE, finish, type Started, start, startServe } from '../support/process.ts'
import { callAt, USER } from '../support/service.ts'
import { hasTool } from '../support/tools.ts'
import { freePort } from '../support/within.ts'
import { oldExecutable } from './old-executable.ts'

/** The partner that continues to buy: the sample in JavaScript, with its venue's book. */
const [SAMPLE] = SAMPLES

type Kind = 'file' | 'server'
type Environment = 'test' | 'live'
/** A version of the program, as an operator and a partner meet it. */
type Version = {
  /** Runs a command that must succeed, and answers its output. */
  run: (...argv: string[]) => Promise<string>
  json: <T>(...argv: string[]) => Promise<T>
  /** The exit code of a command that must not succeed. */
  refused: (...argv: string[]) => Promise<number | string>
  /** Starts the service at the address that the partner knows. */
  serve: () => Promise<Started>
}
type Site = {
  db: string
  folder: string
  old: Version
  new: Version
  /** The path goes on from /partner/v1/. */
  call: (env: Environment, path: string, body?: object) => ReturnType<typeof callAt>
  keys: Record<Environment, string>
  /** Has the partner poll, buy and confirm until nothing is open. */
  work: (env: Environment, by: Version) => Promise<void>
}

async function siteOf(t: TestContext, kind: Kind): Promise<Site | null> {
  if (kind === 'server' && !hasTool(t, 'postgres')) return null
  const before = await oldExecutable(t)
  if (before === null) return null
  const folder = temporaryFolder(t)
  const port = String(await freePort())
  const db = kind === 'file' ? join(folder, 'tranche.db') : await emptyOnServer(folder)
  const url = `http://127.0.0.1:${port}`
  const env = { TRANCHE_DB: db }

  const versionOf = (file: string): Version => {
    const options = { cwd: folder, env, program: [file] as const }
    const run: Version['run'] = async (...argv) => {
      const { code, out, err } = await finish(t, argv, options)
      assert.equal(code, 0, `${file} ${argv.join(' ')}\n${out}${err}`)
      return out
    }
    return {
      run,
      json: async (...argv) => JSON.parse(await run(...argv, '--json')),
      refused: async (...argv) => (await finish(t, argv, options)).code,
      serve: () => startServe(t, ['--port', port], options),
    }
  }
  const versions = { old: versionOf(before), new: versionOf(EXECUTABLE) }
  await versions.old.run('migrate')
  await versions.old.run('partner', 'create', 'acme', '--name', 'Acme')
  const keyOf = async (env: Environment) =>
    (await versions.old.run('key', 'create', 'acme', '--env', env)).trim()
  const keys = { test: await keyOf('test'), live: await keyOf('live') }

  const partner = join(folder, 'partner')
  cpSync(join(EXAMPLES, SAMPLE.folder), partner, { recursive: true })
  rewrite(join(partner, SAMPLE.main), HURRY)
  return {
    db,
    folder,
    ...versions,
    keys,
    call: (env, path, body) => callAt({ url, key: keys[env] }, body ? 'POST' : 'GET', path, body),
    async work(environment, by) {
      const settings = { TRANCHE_URL: url, KEY: keys[environment], PATH: process.env.PATH }
      const sample = start(t, [], { cwd: partner, env: settings, program: SAMPLE.command })
      const open = async () => {
        const asked = ['execution', 'list', '--partner', 'acme', '--env', environment]
        return (await by.json<{ status: string }[]>(...asked)).filter(
          ({ status }) => status === 'pending' || status === 'sent',
        ).length
      }
      for (const end = performance.now() + 300_000; (await open()) > 0; await pause(300))
        assert.ok(performance.now() < end && !sample.hasEnded(), sample.out() + sample.err())
      sample.child.kill('SIGKILL')
      await sample.ended
      assert.doesNotMatch(sample.err(), /is refused/)
    },
  }
}

async function emptyOnServer(name: string): Promise<string> {
  const { emptyDatabase, ourServer } = await import('../support/postgres-server.ts')
  await ourServer()
  return emptyDatabase(name)
}

/** The venue's purchases, by the key of each order. */
const bought = ({ folder }: Site, env: Environment) =>
  ordersIn(join(folder, 'partner', SAMPLE.book(env))).map(({ key, order: id, usd }) => ({
    key,
    id,
    usd: Number(usd),
  }))

const BUDGET_USD = 60

/** No window bought more than its budget, and the ledger has each order of the venue once, and no other. */
async function assertBoughtOnce(site: Site, by: Version, months: readonly string[]): Promise<void> {
  for (const env of ['test', 'live'] as const) {
    const windows = new Map<string, number>()
    for (const { key, usd } of bought(site, env)) {
      const window = key.slice(0, key.lastIndexOf(':'))
      windows.set(window, (windows.get(window) ?? 0) + usd)
    }
    assert.ok(windows.size > 0)
    for (const [window, usd] of windows) assert.ok(usd <= BUDGET_USD, `${window} bought ${usd}`)
    const range = ['--from', months[0] ?? '', '--to', months.at(-1) ?? '', '--partner', 'acme', '--env', env]
    const trades = await by.run('billing', 'export', '--report', 'trades', ...range)
    assert.deepEqual(
      trades
        .trim()
        .split('\r\n')
        .slice(1)
        .map((line) => line.split(',')[6])
        .sort(),
      bought(site, env)
        .map(({ id }) => id)
        .sort(),
    )
  }
  const { ok, findings } = await by.json<{ ok: boolean; findings: { level: string }[] }>('check')
  assert.deepEqual([ok, findings.filter(({ level }) => level === 'error')], [true, []])
}

/** The reports of months, in the sandbox's time and in the real one. */
async function exportsOf(by: Version, months: readonly string[]): Promise<Record<string, string>> {
  const texts: Record<string, string> = {}
  for (const month of months) {
    for (const env of ['test', 'live'])
      for (const report of ['summary', 'users', 'trades']) {
        const what = ['--month', month, '--report', report, '--partner', 'acme', '--env', env]
        texts[`${month} ${env} ${report}`] = await by.run('billing', 'export', ...what)
      }
  }
  return texts
}

const planOf = (partner_plan_id: string) => ({
  partner_user_id: 'ana',
  partner_plan_id,
  amount_usd: `${BUDGET_USD}.00`,
  frequency: 'daily',
})

/** Adds a plan. Resolves with its start, which a partner stores. */
async function add(site: Site, env: Environment, plan: object): Promise<string> {
  const { status, body } = await site.call(env, 'plans', plan)
  assert.equal(status, 200, JSON.stringify(body))
  return body.start_date
}

/**
 * Some weeks under the old program. Resolves with the months that have trades; the first of them is over in the
 * sandbox.
 */
async function live(site: Site): Promise<string[]> {
  const [year = 0, month = 0] = formatInstant(machine.clock()).split('-').map(Number)
  for (const env of ['test', 'live'] as const) {
    assert.equal((await site.call(env, 'users', { ...USER, partner_user_id: 'ana' })).status, 200)
    await add(site, env, planOf('kept'))
  }
  await add(site, 'live', planOf('stopped'))
  await site.old.run('tick', '--price', '60000')
  for (const env of ['live', 'test'] as const) await site.work(env, site.old)
  for (const days of ['8h', '33d', '8h', '8h']) {
    await site.old.run('sandbox', 'advance', 'acme', days, '--price', '60000')
    await site.work('test', site.old)
  }
  return [0, 1, 2].map((more) => formatInstant(Date.UTC(year, month - 1 + more) as Instant).slice(0, 7))
}

for (const kind of ['file', 'server'] as const) {
  test(`on a ${kind}: an upgrade loses nothing, the way back buys nothing twice, and the next upgrade goes on`, async (t) => {
    const site = await siteOf(t, kind)
    if (!site) return
    let serve = await site.old.serve()
    const months = await live(site)
    const exported = await exportsOf(site.old, months.slice(0, 2))
    assert.ok((exported[`${months[0]} test trades`] ?? '').split('\r\n').length > 3)

    // Upgrading.
    const before = join(site.folder, 'before-upgrade.db')
    await site.old.run('backup', before)
    const pending = (await site.new.run('migrate', '--status')).match(/ pending$/gm)
    assert.ok(pending && pending.length > 3)
    await site.new.run('migrate')
    assert.equal((await site.call('live', 'me')).status, 503, 'the old service writes nothing any more')
    assert.equal(await site.old.refused('status'), 12)
    serve.child.kill('SIGTERM')
    assert.equal(await serve.ended, 0)
    await assertBoughtOnce(site, site.new, months)
    assert.deepEqual(await exportsOf(site.new, months.slice(0, 2)), exported)
    serve = await site.new.serve()
    assert.equal((await site.call('live', 'nothing')).headers.get('x-error-code'), 'route_not_found')
    const began = formatInstant(machine.clock())
    const later = planOf('later')
    const start_date = await add(site, 'live', later)
    await add(site, 'live', { ...planOf('stopped'), status: 'cancelled' })
    await site.new.run('tick', '--price', '59000')
    await site.work('live', site.new)
    await site.new.run('sandbox', 'advance', 'acme', '8h', '--price', '59000')
    await site.work('test', site.new)
    await assertBoughtOnce(site, site.new, months)
    const books = { test: bought(site, 'test'), live: bought(site, 'live') }

    // Rolling back: the new program lists the data that the old one will not know.
    const told = await site.new.json<{ partner_plan_id: string; status: string }[]>(
      ...['execution', 'list', '--env', 'live', '--since', began],
    )
    assert.deepEqual(each(told, 'partner_plan_id', 'status'), [
      ['kept', 'filled'],
      ['later', 'filled'],
    ])
    serve.child.kill('SIGTERM')
    assert.equal(await serve.ended, 0)
    assert.equal(await site.old.refused('tick', '--price', '60000'), 12)
    await site.old.run('restore', ...(kind === 'server' ? ['--force'] : []), before)
    serve = await site.old.serve()
    // The partner resends its later changes, with the start that it was given.
    await add(site, 'live', { ...later, start_date })
    await add(site, 'live', { ...planOf('stopped'), status: 'cancelled' })
    // Another price than before: the same instructions come again, at other moments.
    await site.old.run('tick', '--price', '58000')
    await site.work('live', site.old)
    await site.old.run('sandbox', 'advance', 'acme', '8h', '--price', '58000')
    await site.work('test', site.old)
    assert.deepEqual(
      { test: bought(site, 'test'), live: bought(site, 'live') },
      books,
      'nothing is bought again',
    )
    await assertBoughtOnce(site, site.old, months)
    if (kind === 'file') {
      const isReplaced = (name: string) => /^tranche\.db\.replaced-.*Z$/.test(name)
      const theirs = ['--db', join(site.folder, readdirSync(site.folder).find(isReplaced) ?? '')]
      const kept = await site.new.json<unknown[]>(...theirs, 'execution', 'list', '--since', began)
      assert.ok(kept.length > told.length, 'the new program still reads what was replaced')
    }

    // And forward again.
    await site.old.run('sandbox', 'advance', 'acme', '8h', '--price', '60000')
    await site.work('test', site.old)
    serve.child.kill('SIGTERM')
    await serve.ended
    await site.new.run('migrate')
    await site.new.serve()
    await site.new.run('sandbox', 'advance', 'acme', '16h', '--price', '60000')
    await site.work('test', site.new)
    assert.ok(bought(site, 'test').length > books.test.length, 'it goes on buying')
    await assertBoughtOnce(site, site.new, months)
    const over = await exportsOf(site.new, months.slice(0, 1))
    for (const report of ['summary', 'users', 'trades']) {
      const name = `${months[0]} test ${report}`
      assert.equal(over[name], exported[name], name)
    }
  })
}
