// A database that lives through many kills: its folder, the program on it, and its partners.

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import SQLite from 'better-sqlite3'
import { seededRandom } from '../../../src/engine/backtest.ts'
import { type Started, start, startServe } from '../../support/process.ts'
import { runHere } from '../../support/service.ts'
import { createPartner, type Partner } from './rounds.ts'

export type Scene = {
  folder: string
  file: string
  random: () => number
  /** The partner in its two environments: the sandbox, whose clock is moved, and the live one. */
  test: Partner
  live: Partner
  /** Keys that were printed, and so must be valid. */
  keys: Set<string>
  /** Starts a command on `file`, by default the database of the scene. */
  start: (argv: readonly string[], file?: string) => Started
  serve: (...argv: string[]) => Promise<Started & { url: string }>
  /** Runs a command in this process, which must end with 0 and say nothing on stderr; answers its output. */
  run: (argv: readonly string[], file?: string) => Promise<string>
  issueKey: (env: string) => Promise<string>
  /** Runs the service for as long as `work` takes, and stops it as an operator would. */
  served: (work: (url: string) => Promise<void>) => Promise<void>
  end: (keep: boolean) => Promise<void>
}

/**
 * The stderr that a successful command may write: that a month is not over, and that a sandbox whose clock was moved is
 * ahead, as text or in the one object of --json.
 */
export const REMARKS =
  /^(warning: acme test is \S.* ahead, in .*\n)?(\S+ is not over yet: .*\n)?$|^\{"warnings":\["acme test is [^"]* ahead, in [^"]*"\]\}\n$/

export async function openScene(seed: number): Promise<Scene> {
  const folder = mkdtempSync(join(tmpdir(), 'tranche-kill-'))
  const file = join(folder, 'tranche.db')
  const random = seededRandom(seed)
  const children = new Set<Started['child']>()
  // Each process is removed when it ends, because there will be thousands.
  const follow = <S extends Started>(started: S): S => {
    children.add(started.child)
    started.ended.then(() => children.delete(started.child))
    return started
  }
  const ending = { after: () => {} }
  const begin = (argv: readonly string[], on = file) =>
    follow(start(ending, ['--db', on, ...argv], { cwd: folder }))

  async function run(argv: readonly string[], on = file): Promise<string> {
    const { code, out, err } = await runHere(['--db', on, ...argv])
    assert.equal(code, 0, `${argv.join(' ')}: ${out}${err}`)
    assert.match(err, REMARKS)
    return out
  }

  const serve = async (...argv: string[]) =>
    follow(await startServe(ending, ['--db', file, ...argv], { cwd: folder }))

  await run(['partner', 'create', 'acme', '--name', 'Acme'])
  const issueKey = async (env: string): Promise<string> =>
    JSON.parse(await run(['key', 'create', 'acme', '--env', env, '--json'])).key
  const [test, live] = [await issueKey('test'), await issueKey('live')]
  return {
    folder,
    file,
    random,
    test: createPartner(test, random),
    live: createPartner(live, random),
    keys: new Set([test, live]),
    start: begin,
    serve,
    run,
    issueKey,

    async served(work) {
      const service = await serve()
      await work(service.url)
      service.child.kill('SIGTERM')
      assert.equal(await service.ended, 0, service.err())
    },

    async end(keep) {
      for (const child of children) child.kill('SIGKILL')
      if (!keep) rmSync(folder, { recursive: true, force: true })
    },
  }
}

// Invariants after every kill, read from the file past the program.

type Row = {
  execution_id: string
  delivered_count: number
  lease: number | null
  order_id: string | null
  status: string
}

/** Throws unless the database is sound at its first start, and has every answered write. */
export async function assertNothingLost(scene: Scene): Promise<void> {
  assert.ok(existsSync(scene.file), 'the database has its name')
  // The next start: it needs no repair, prints nothing on stderr, and has no findings.
  const { ok, findings } = JSON.parse(await scene.run(['check', '--json']))
  assert.ok(ok, JSON.stringify(findings))
  const db = new SQLite(scene.file, { readonly: true })
  try {
    assertPartner(db, scene.test, 'test')
    assertPartner(db, scene.live, 'live')
    const known = column(db, 'select key_sha256 from api_keys')
    for (const key of scene.keys)
      assert.ok(known.has(createHash('sha256').update(key).digest('hex')), 'a key that was shown is known')
    const twice = db
      .prepare(
        'select plan_id from executions group by plan_id, window_start, tranche_index having count(*) > 1',
      )
      .all()
    assert.deepEqual(twice, [], 'no idempotency key twice')
  } finally {
    db.close()
  }
}

function assertPartner(db: SQLite.Database, partner: Partner, environment: string): void {
  const inTenant =
    "where tenant_id = (select tenant_id from tenants where environment = ? and partner_slug = 'acme')"
  const users = column(db, `select partner_user_id from users ${inTenant}`, environment)
  const plans = column(db, `select partner_plan_id from plans ${inTenant}`, environment)
  assert.deepEqual([...partner.users.difference(users)], [], 'users that were answered are there')
  assert.deepEqual([...partner.plans.difference(plans)], [], 'plans that were answered are there')
  const rows = db
    .prepare<[string], Row>(
      `select e.execution_id, e.status, delivered_count, lease_expires_at as lease, partner_order_id as order_id
       from executions e left join trades t using (execution_id) ${inTenant.replace('tenant_id', 'e.tenant_id')}`,
    )
    .all(environment)
  const seen = new Map(rows.map((row) => [row.execution_id, row]))
  for (const [id, { lease_expires_at, delivered_count }] of partner.leases) {
    const row = seen.get(id)
    assert.ok(row && row.delivered_count >= delivered_count, `the delivery of ${id} is there`)
    if (row.status !== 'sent') continue
    assert.ok((row.lease ?? 0) >= Date.parse(lease_expires_at), `the lease of ${id} is there`)
  }
  for (const [id, { partner_order_id, status }] of partner.reports) {
    const row = seen.get(id)
    assert.deepEqual([row?.status, row?.order_id], [status, partner_order_id], `the report on ${id} is there`)
  }
  for (const { execution_id: id, order_id } of rows) {
    const said = partner.reports.get(id) ?? partner.unanswered.get(id)
    if (order_id !== null) assert.equal(said?.partner_order_id, order_id, `the trade of ${id} was reported`)
  }
}

const column = (db: SQLite.Database, sql: string, ...values: string[]): Set<string> =>
  new Set(
    db
      .prepare<string[], string>(sql)
      .pluck()
      .all(...values),
  )
