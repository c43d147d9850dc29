// The executable, run as on a machine that has nothing: an empty environment, no PATH, another folder.

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
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
import { dirname, join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { VERSION } from '../../src/version.ts'
import { EXECUTABLE } from '../support/executable.ts'
import { finish, startServe } from '../support/process.ts'
import { fill, PLAN, USER } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

/** Nothing at all: not even the cache that other tests share. */
const BARE = { TRANCHE_CACHE: undefined }
const CREATE = ['partner', 'create', 'acme', '--name', 'Acme']

suite('binary', { concurrency: 2 }, () => {
  test('is executable, and its hash stands beside it', () => {
    assert.equal(statSync(EXECUTABLE).mode & 0o777, 0o755)
    const hash = createHash('sha256').update(readFileSync(EXECUTABLE)).digest('hex')
    assert.equal(readFileSync(`${EXECUTABLE}.sha256`, 'utf8').split(' ')[0], hash)
  })

  test('a notice of whose work is in it stands beside it', () => {
    const notice = readFileSync(join(dirname(EXECUTABLE), 'LICENSES.txt'), 'utf8')
    const titles = [...notice.matchAll(/^={80}\n(.+)\n={80}$/gm)].map(([, title = '']) => title)
    assert.ok(titles.includes(`Node.js ${process.versions.node}`))
    assert.match(notice, /^SQLite is in the public domain/m)
    const { dependencies } = JSON.parse(readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8'))
    for (const name of Object.keys(dependencies))
      assert.ok(
        titles.some((title) => title.startsWith(`${name} `)),
        name,
      )
    for (const title of titles.slice(2)) assert.match(title, /^\S+ \d\S* \(.*[A-Z].*\)$/)
  })

  test('version needs nothing: no database, no addon, no warning', async (t) => {
    const cwd = temporaryFolder(t)
    const env = { TRANCHE_CACHE: join(cwd, 'cache') }
    const ran = await finish(t, ['version'], { cwd, env })
    assert.deepEqual(ran, { code: 0, out: `${VERSION}\n`, err: '' })
    assert.deepEqual(readdirSync(cwd), [])
  })

  test('the whole flow of the contract', async (t) => {
    const cwd = temporaryFolder(t)
    const json = async (...argv: string[]) => {
      const { code, out, err } = await finish(t, [...argv, '--json'], { cwd, env: BARE })
      assert.deepEqual([code, err], [0, ''], argv.join(' '))
      return JSON.parse(out)
    }
    await json(...CREATE)
    const { key } = await json('key', 'create', 'acme', '--env', 'test')
    const served = await startServe(t, [], { cwd, env: BARE })
    const call = async (method: string, path: string, body?: object) => {
      const headers = { authorization: `Bearer ${key}` }
      const sent = { method, headers, ...(body && { body: JSON.stringify(body) }) }
      const answer = await fetch(`${served.url}/partner/v1/${path}`, sent)
      const text = await answer.text()
      assert.equal(answer.status, 200, text)
      return JSON.parse(text)
    }
    await call('POST', 'users', USER)
    await call('POST', 'plans', PLAN)
    assert.equal((await json('tick', '--price', '60000')).executions_created, 1)
    const [{ execution_id, amount_usd }] = await call('GET', 'executions/due')
    const confirmed = await call('POST', `executions/${execution_id}/confirm`, {
      ...fill('o1', amount_usd),
      btc_amount: '0.00016667',
    })
    assert.equal(confirmed.status, 'filled')
    served.child.kill('SIGTERM')
    assert.equal(await served.ended, 0)
    for (const line of served.err().trimEnd().split('\n')) assert.doesNotThrow(() => JSON.parse(line), line)
    assert.deepEqual(await json('check'), { ok: true, findings: [] })
    assert.equal((await finish(t, ['plan', 'show', 'p1'], { cwd, env: BARE })).code, 0)
  })

  test('NODE_OPTIONS of another program changes nothing', async (t) => {
    const env = { ...BARE, NODE_OPTIONS: '--require /nowhere.js --no-such-option' }
    const ran = await finish(t, ['version'], { cwd: temporaryFolder(t), env })
    assert.deepEqual(ran, { code: 0, out: `${VERSION}\n`, err: '' })
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
      nothing: () => truncateSync(file),
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
    const slugs = ['a1', 'a2', 'a3', 'a4', 'a5', 'a6']
    const ran = await Promise.all(
      slugs.map((slug) => finish(t, ['partner', 'create', slug, '--name', slug], { cwd, env })),
    )
    for (const { code, err } of ran) assert.deepEqual([code, err], [0, ''])
    assert.equal(readdirSync(cache).length, 1)
    const { out } = await finish(t, ['partner', 'list', '--json'], { cwd, env })
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

  // sudo as many set it up keeps the HOME of whoever calls it.
  if (process.getuid?.() === 0) {
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
