// The executable, run as on a bare machine, and the cost of its start.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  globSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { VERSION } from '../../src/resources.ts'
import { addressIn, temporaryFolder } from '../support/database.ts'
import { EXECUTABLE, finish } from '../support/process.ts'
import { runHere } from '../support/service.ts'
import { canBeOthers } from '../support/tools.ts'
import { measure } from '../support/within.ts'

/** No environment at all: not even the cache that other tests share. */
const BARE = { TRANCHE_CACHE: undefined }
const CREATE = ['partner', 'create', 'acme', '--name', 'Acme']

suite('binary', { concurrency: 2 }, () => {
  test('NODE_OPTIONS of another program changes nothing', async (t) => {
    const cwd = temporaryFolder(t)
    const env = {
      TRANCHE_CACHE: join(cwd, 'cache'),
      NODE_OPTIONS: '--require /nowhere.js --no-such-option',
    }
    const ran = await finish(t, ['version'], { cwd, env })
    assert.deepEqual(ran, { code: 0, out: `${VERSION}\n`, err: '' })
    // A version needs nothing either: no database, no addon.
    assert.deepEqual(readdirSync(cwd), [])
  })

  test('the addon is unpacked once, for its owner alone, and verified at every start', async (t) => {
    const { cwd, cache, create } = await withCache(t)
    const [name = ''] = readdirSync(cache)
    const file = join(cache, name)
    const original = readFileSync(file)
    assert.deepEqual(readdirSync(cache), [name])
    assert.deepEqual([statSync(cache).mode & 0o777, statSync(file).mode & 0o777], [0o700, 0o600])
    const first = statSync(file).mtimeMs
    await create('again.db')
    assert.equal(statSync(file).mtimeMs, first)

    const harms: Record<string, () => void> = {
      'another content': () => writeFileSync(file, Buffer.from(original).fill(0, 4_000, 8_000)),
      'half of it': () => truncateSync(file, 1_000),
      'open to others': () => chmodSync(file, 0o666),
      'a link': () => {
        writeFileSync(join(cwd, 'elsewhere'), original)
        rmSync(file)
        symlinkSync(join(cwd, 'elsewhere'), file)
      },
    }
    for (const [what, harm] of Object.entries(harms)) {
      harm()
      await create(`${what}.db`)
      assert.ok(readFileSync(file).equals(original), what)
      const stat = lstatSync(file)
      assert.deepEqual([stat.isFile(), stat.mode & 0o777], [true, 0o600], what)
      assert.deepEqual(readdirSync(cache), [name], what)
    }
  })

  test('many first starts at once, on one database and one cache', async (t) => {
    const cwd = temporaryFolder(t)
    const cache = join(cwd, 'cache')
    const env = { TRANCHE_CACHE: cache }
    const slugs = ['a1', 'a2', 'a3', 'a4']
    const ran = await Promise.all(
      slugs.map((slug) => finish(t, ['partner', 'create', slug, '--name', slug], { cwd, env })),
    )
    for (const { code, err } of ran) assert.deepEqual([code, err], [0, ''])
    assert.equal(readdirSync(cache).length, 1)
    const { out } = await runHere(['--db', addressIn(cwd), 'partner', 'list', '--json'])
    assert.equal(JSON.parse(out).length, slugs.length)
  })

  for (const [what, prepare] of [
    ['that is a link', (cwd: string, cache: string) => symlinkSync(join(cwd, 'target'), cache)],
    ['in a folder that anybody can write to', (cwd: string) => chmodSync(cwd, 0o777)],
    ['that is a file', (_: string, cache: string) => writeFileSync(cache, '')],
  ] as const) {
    test(`a cache folder ${what} is not used, and another place is found`, async (t) => {
      const cwd = temporaryFolder(t)
      const cache = join(cwd, 'cache')
      const home = temporaryFolder(t)
      mkdirSync(join(cwd, 'target'))
      prepare(cwd, cache)
      const env = { TRANCHE_CACHE: cache, HOME: home }
      const { code, err } = await finish(t, CREATE, { cwd, env })
      assert.deepEqual([code, err], [0, ''])
      assert.deepEqual(readdirSync(join(cwd, 'target')), [])
      assert.equal(readdirSync(join(home, '.cache/tranche')).length, 1)
    })
  }

  // As many configure it, sudo passes on the HOME of its caller.
  if (canBeOthers()) {
    test('nothing is written into the home of another user', async (t) => {
      const cwd = temporaryFolder(t)
      const home = temporaryFolder(t)
      chownSync(home, 65_534, 65_534)
      for (const env of [{ HOME: home }, { XDG_CACHE_HOME: join(home, 'cache') }]) {
        const own = { ...BARE, ...env, TMPDIR: temporaryFolder(t) }
        const { code, err } = await finish(t, ['migrate', '--json'], { cwd, env: own })
        assert.deepEqual([code, err], [0, ''])
        assert.deepEqual(readdirSync(home), [])
        assert.equal(globSync('tranche-*/*.node', { cwd: own.TMPDIR }).length, 1)
      }
    })
  }

  test('without a home the temporary folder does; without either it says what to set', async (t) => {
    const cwd = temporaryFolder(t)
    const homeless = { ...BARE, HOME: join(EXECUTABLE, 'home') }
    const env = { ...homeless, TMPDIR: temporaryFolder(t) }
    assert.equal((await finish(t, CREATE, { cwd, env })).code, 0)
    assert.equal(globSync('tranche-*/*.node', { cwd: env.TMPDIR }).length, 1)

    const nowhere = { ...homeless, TMPDIR: join(EXECUTABLE, 'tmp') }
    const { code, out, err } = await finish(t, ['status', '--json'], { cwd, env: nowhere })
    assert.deepEqual([code, out], [1, ''])
    assert.match(JSON.parse(err).error.message, /set TRANCHE_CACHE/)
  })
})

async function withCache(t: TestContext) {
  const cwd = temporaryFolder(t)
  const cache = join(cwd, 'cache')
  const create = async (db: string): Promise<void> => {
    const argv = [...CREATE, '--db', join(cwd, db)]
    const { code, err } = await finish(t, argv, { cwd, env: { TRANCHE_CACHE: cache } })
    assert.deepEqual([code, err], [0, ''], db)
  }
  await create('first.db')
  return { cwd, cache, create }
}

// The cost of a start of the executable, as a multiple of `node -e 0`, the least that Node takes. Cron's pass starts it
// once a minute, and each operator's command does too.

const ROUNDS = 7
const LIMITS = { version: 3, 'idle tick': 4 }

suite('start-up', () => {
  test('version within 3 times node -e 0, an idle tick within 4', async (t) => {
    const cwd = temporaryFolder(t)
    const env = { TRANCHE_CACHE: cwd }
    const run = (file: string, argv: string[]): number => {
      const started = performance.now()
      const { status, stderr } = spawnSync(file, argv, { cwd, env })
      assert.equal(status, 0, String(stderr))
      return performance.now() - started
    }
    // The first start makes the database and unpacks the addon.
    run(EXECUTABLE, ['migrate'])
    const starts = {
      node: () => run(process.execPath, ['-e', '0']),
      version: () => run(EXECUTABLE, ['version']),
      'idle tick': () => run(EXECUTABLE, ['tick']),
    }
    const names = ['version', 'idle tick'] as const
    type Ratios = Record<(typeof names)[number], number>
    const slow = (ratios: Ratios) => names.filter((name) => ratios[name] > LIMITS[name])
    const series = async (): Promise<Ratios> => {
      const took = { node: [] as number[], version: [] as number[], 'idle tick': [] as number[] }
      // In turns, so that a busy moment of the machine affects all of them.
      for (let round = 0; round < ROUNDS; round++) {
        took.node.push(starts.node())
        for (const name of names) took[name].push(starts[name]())
      }
      const ratio = (name: (typeof names)[number]) => median(took[name]) / median(took.node)
      return { version: ratio('version'), 'idle tick': ratio('idle tick') }
    }
    const ratios = await measure(series, (taken) => slow(taken).length === 0)
    for (const name of names) t.diagnostic(`${name}: ${ratios[name].toFixed(2)} times node -e 0`)
    assert.deepEqual(slow(ratios), [], JSON.stringify(ratios))
  })
})

const median = (numbers: number[]): number =>
  numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? Number.NaN
