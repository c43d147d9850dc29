// One database that lives through many kills: its folder, the program on it, and who works with it.

import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { seededRandom } from '../../../src/engine/backtest.ts'
import { runHere } from '../../support/command.ts'
import { type Started, start, startServe } from '../../support/process.ts'
import { createPartner, type Partner } from './partner.ts'

export type Scene = {
  folder: string
  file: string
  random: () => number
  /** The partner in its two environments: the sandbox, whose clock is moved, and the live one. */
  test: Partner
  live: Partner
  /** Keys that were shown, and so must open the service. */
  keys: Set<string>
  /** Starts a command on `file`, by default the database of the scene. */
  start: (argv: readonly string[], file?: string) => Started
  serve: (...argv: string[]) => Promise<Started & { url: string }>
  /** Runs a command in this process, which must end with 0 and say nothing on stderr; answers what it printed. */
  run: (argv: readonly string[], file?: string) => Promise<string>
  issueKey: (env: string) => Promise<string>
  /** Runs the service for as long as `work` takes, and stops it as an operator would. */
  served: (work: (url: string) => Promise<void>) => Promise<void>
  end: (keep: boolean) => Promise<void>
}

export async function openScene(seed: number): Promise<Scene> {
  const folder = mkdtempSync(join(tmpdir(), 'tranche-kill-'))
  const file = join(folder, 'tranche.db')
  const random = seededRandom(seed)
  const children = new Set<Started['child']>()
  // Each process is forgotten when it ends, because there will be thousands.
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
    // Nothing but the remark on a month that is not over.
    assert.match(err, /^(\S+ is not over yet: .*\n)?$/)
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
