// A database that lives through many kills: its folder, the program on it, and its partners.

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import SQLite from 'better-sqlite3'
import { seededRandom } from '../../../src/engine/backtest.ts'
import { machine } from '../../../src/machine.ts'
import { type Started, start, startServe } from '../../support/process.ts'
import { runHere } from '../../support/service.ts'
import {
  assertRules,
  assertWhole,
  type Callee,
  createCalls,
  createPartner,
  type Look,
  type Partner,
} from '../partner.ts'

export type Scene = {
  folder: string
  file: string
  random: () => number
  /** The partner in its two environments: the sandbox, whose clock is moved, and the live one. */
  test: Partner
  live: Partner
  partners: readonly Partner[]
  /** The service that runs now, or ran last. */
  service: Callee
  /** Keys that were printed, and so must be valid. */
  keys: Set<string>
  /** Starts a command on `file`, by default the database of the scene. */
  start: (argv: readonly string[], file?: string) => Started
  serve: (...argv: string[]) => Promise<Started>
  /** Runs a command in this process, which must end with 0 and say nothing on stderr; answers its output. */
  run: (argv: readonly string[], file?: string) => Promise<string>
  issueKey: (env: string) => Promise<string>
  /** Runs the service for as long as `work` takes, and stops it as an operator would. */
  served: (work: () => Promise<void>) => Promise<void>
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

  const service: Callee = { name: 'serve', url: '', disturbedAt: Number.NEGATIVE_INFINITY }
  async function serve(...argv: string[]): Promise<Started> {
    const started = follow(await startServe(ending, ['--db', file, ...argv], { cwd: folder }))
    const { url } = started
    Object.assign(service, { url, disturbedAt: Number.NEGATIVE_INFINITY, isGone: false })
    started.child.once('exit', () => {
      service.isGone = true
    })
    return started
  }

  await run(['partner', 'create', 'acme', '--name', 'Acme'])
  const issueKey = async (env: string): Promise<string> =>
    JSON.parse(await run(['key', 'create', 'acme', '--env', env, '--json'])).key
  const keys = new Set<string>()
  const partnerIn = async (environment: Partner['environment']): Promise<Partner> => {
    const key = await issueKey(environment)
    keys.add(key)
    const calls = createCalls(key, [service], random)
    return createPartner(environment, {
      calls,
      random,
      clock: machine.clock,
      plansMax: Number.POSITIVE_INFINITY,
    })
  }
  const [test, live] = [await partnerIn('test'), await partnerIn('live')]
  return {
    folder,
    file,
    random,
    test,
    live,
    partners: [test, live],
    service,
    keys,
    start: begin,
    serve,
    run,
    issueKey,

    async served(work) {
      const started = await serve()
      await work()
      started.child.kill('SIGTERM')
      assert.equal(await started.ended, 0, started.err())
    },

    async end(keep) {
      for (const child of children) child.kill('SIGKILL')
      if (!keep) rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Throws unless the database is sound at its first start, and has every answered write. */
export async function assertNothingLost(scene: Scene): Promise<void> {
  assert.ok(existsSync(scene.file), 'the database has its name')
  // The next start: it needs no repair, prints nothing on stderr, and has no findings.
  const { ok, findings } = JSON.parse(await scene.run(['check', '--json']))
  assert.ok(ok, JSON.stringify(findings))
  const db = new SQLite(scene.file, { readonly: true })
  try {
    const look: Look = async <Row>(sql: string) => db.prepare<[], Row>(sql).all()
    await assertRules(look)
    for (const partner of scene.partners) {
      assert.equal(partner.calls.counts.putOff, 0)
      await assertWhole(look, partner)
    }
    const known = db.prepare('select key_sha256 from api_keys').pluck().all()
    for (const key of scene.keys)
      assert.ok(
        known.includes(createHash('sha256').update(key).digest('hex')),
        'a key that was shown is known',
      )
  } finally {
    db.close()
  }
}
