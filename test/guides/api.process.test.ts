// The partner developer's guide, run as a reader would paste it: the sandbox, curl, TypeScript and Python.

import assert from 'node:assert/strict'
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { LEASE_MS } from '../../src/core/execution.ts'
import { type Log, silentLog } from '../../src/log.ts'
import { executionsOf, poll, sendFirst } from '../http/steps.ts'
import { compile } from '../openapi/compile.ts'
import { DESCRIPTION } from '../openapi/described.ts'
import { generateTypes } from '../openapi/generate-types.ts'
import { freePort } from '../support/free-port.ts'
import { blocksOf, paste } from '../support/paste.ts'
import { start } from '../support/process.ts'
import { fill, startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const ROOT = join(import.meta.dirname, '../..')
const GUIDE = readFileSync(join(ROOT, 'docs/api.md'), 'utf8')
/** What the generator of the guide makes of the description. */
const TYPES = generateTypes(DESCRIPTION)

/** A folder with the guide's programs in it, and the packages that its reader installs. */
async function workshop(t: TestContext): Promise<string> {
  const folder = temporaryFolder(t)
  for (const program of [...blocksOf(GUIDE, 'ts'), ...blocksOf(GUIDE, 'python')]) {
    const name = /^(?:\/\/|#) (partner\.\w+)\n/.exec(program)?.[1] ?? assert.fail('a program names its file')
    writeFileSync(join(folder, name), program)
  }
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  writeFileSync(join(folder, 'tranche.d.ts'), await TYPES)
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  return folder
}

test('the whole guide works by copy and paste', async (t) => {
  const folder = await workshop(t)
  const port = String(await freePort())
  // What fetches packages is not for a test: the folder has them, and the types the same generator made.
  const shell = blocksOf(GUIDE, 'sh').map((block) =>
    block.includes('npm install') ? block.split('\n')[0] : block,
  )
  const env = {
    ...process.env,
    PATH: `${ROOT}/node_modules/.bin:${process.env.PATH}`,
    TRANCHE_PORT: port,
  }
  const script = `trap 'kill \${SERVICE:-} 2> /dev/null || true' EXIT\n${shell.join('\n')}\nwait`
  const { code, out, err } = await paste(t, script.replaceAll('8080', port), { cwd: folder, env, jobs: true })
  assert.equal(code, 0, `${err}${out}`)
  assert.match(out, /"partner_name":"Acme Exchange"/)
  assert.match(out, /"partner_order_id":"order-1"\}\n.*"partner_order_id":"order-1","replayed":true\}\n/)
  assert.equal(
    out.match(/^recorded [0-9a-f]{32}$/gm)?.length,
    2,
    `TypeScript and Python recorded one each: ${out}`,
  )
  assert.match(out, /"executions_filled":3,/)
  assert.doesNotMatch(out, /"detail"/)
  const description = JSON.parse(readFileSync(join(folder, 'openapi.json'), 'utf8'))
  assert.deepEqual(description, DESCRIPTION)
})

for (const { program, command, journal } of [
  { program: 'partner.ts', command: process.execPath, journal: 'journal.json' },
  { program: 'partner.py', command: 'python3', journal: 'journal-py.json' },
])
  test(`${program} goes on behind a report that is refused, and never sends it again`, async (t) => {
    const folder = await workshop(t)
    let calls = 0
    const log: Log = { ...silentLog, info: () => void calls++ }
    const service = await startService(t, { log })
    await sendFirst(service, ['a', 'b', 'c'])
    service.advance(LEASE_MS)
    const [first = ''] = [...(await poll(service)).values()].map(([due]) => String(due?.execution_id))
    service.advance(LEASE_MS)
    // The venue bought more than was reserved.
    const report = fill('order-1', '10.01')
    writeFileSync(join(folder, journal), JSON.stringify({ [first]: { report } }))

    const env = { PATH: process.env.PATH, BASE: service.url, KEY: service.key }
    const round = async () => {
      const { out, err, ended } = start(t, [program], { cwd: folder, env, program: [command] })
      return { code: await ended, out: out(), err: err() }
    }
    const refused = new RegExp(`^${first} is refused, and a person has to decide: 400 `, 'm')
    const { code, out, err } = await round()
    assert.equal(code, 1, err)
    assert.match(err, refused)
    assert.equal(out.match(/^recorded [0-9a-f]{32}$/gm)?.length, 2, out)
    const executions = await Promise.all(['a', 'b', 'c'].map((id) => executionsOf(service, id)))
    assert.deepEqual(
      executions
        .flat()
        .map(({ status }) => status)
        .toSorted(),
      ['filled', 'filled', 'sent'],
    )

    service.advance(LEASE_MS)
    calls = 0
    const next = await round()
    assert.deepEqual([next.code, next.out], [1, ''])
    assert.match(next.err, refused)
    assert.equal(calls, 1, 'a poll, and no confirmation')
  })

test('the TypeScript of the guide compiles under strict rules', async (t) => {
  compile(await workshop(t), 'partner.ts')
})

test('the guide names every status there is, every route that changes something, and no other', () => {
  const errors = GUIDE.slice(GUIDE.indexOf('## Errors'))
  const named = [...errors.matchAll(/^\| (\d{3}) \|/gm)].map(([, status]) => status)
  const operations = Object.values(DESCRIPTION.paths).flatMap((path) => Object.values(path))
  const statuses = new Set(operations.flatMap(({ responses }) => Object.keys(responses)))
  assert.deepEqual(named, [...statuses].filter((status) => status !== '200').sort())

  const retrying = GUIDE.slice(GUIDE.indexOf('## Retrying'), GUIDE.indexOf('## Bought'))
  for (const [path, methods] of Object.entries(DESCRIPTION.paths)) {
    for (const method of Object.keys(methods).filter((name) => name !== 'get')) {
      const call = `${method.toUpperCase()} ${path.replace('/partner/v1', '')}`
      assert.ok(retrying.includes(call), `${call} is in the table of retries`)
    }
  }
})
