// The partner developer's guide, run as a reader would paste it: the sandbox, curl, TypeScript and Python.

import assert from 'node:assert/strict'
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { compile } from '../openapi/compile.ts'
import { DESCRIPTION } from '../openapi/described.ts'
import { generateTypes } from '../openapi/generate-types.ts'
import { temporaryFolder } from '../support/database.ts'
import { PYTHON, paste } from '../support/process.ts'
import { blocksOf } from '../support/samples.ts'
import { freePort } from '../support/within.ts'

const ROOT = join(import.meta.dirname, '../..')
const GUIDE = readFileSync(join(ROOT, 'docs/api.md'), 'utf8')
/** What the generator of the guide makes of the description. */
const TYPES = generateTypes(DESCRIPTION)

/** A folder with what the guide's reader has in it: its program, the sample partners, and the packages installed. */
async function workshop(t: TestContext): Promise<string> {
  const folder = temporaryFolder(t)
  const [program = assert.fail('the guide has a program')] = blocksOf(GUIDE, 'ts')
  assert.match(program, /^\/\/ client\.ts\n/)
  writeFileSync(join(folder, 'client.ts'), program)
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
    PATH: [dirname(process.execPath), dirname(PYTHON), process.env.PATH].join(':'),
    TRANCHE_PORT: port,
  }
  const script = `trap 'kill \${SERVICE:-} 2> /dev/null || true' EXIT\n${shell.join('\n')}\nwait`
  const { code, out, err } = await paste(t, script.replaceAll('8080', port), { cwd: folder, env, jobs: true })
  assert.equal(code, 0, `${err}${out}`)
  assert.match(out, /"partner_name":"Acme Exchange"/)
  assert.match(out, /"partner_order_id":"order-1"\}\n.*"partner_order_id":"order-1","replayed":true\}\n/)
  assert.equal(
    out.match(/^exec_[0-9a-f]{32} recorded \{.*"status": ?"filled"/gm)?.length,
    2,
    `TypeScript and Python recorded one each: ${out}`,
  )
  assert.match(out, /"executions_filled":3,/)
  assert.doesNotMatch(out, /"detail"/)
  const description = JSON.parse(readFileSync(join(folder, 'openapi.json'), 'utf8'))
  assert.deepEqual(description, DESCRIPTION)
})

test('the TypeScript of the guide compiles under strict rules', async (t) => {
  compile(await workshop(t), 'client.ts')
})

test('the guide names every status there is, every route that changes something, and no other', () => {
  const errors = GUIDE.slice(GUIDE.indexOf('## Errors'))
  const named = new Set([...errors.matchAll(/^\| `\w+` \| (\d{3}) \|/gm)].map(([, status]) => status))
  const operations = Object.values(DESCRIPTION.paths).flatMap((path) => Object.values(path))
  const described = operations.flatMap(({ responses }) => Object.keys(responses))
  // What answers a request that is no call of any operation is not in the description.
  const statuses = new Set([...described, '405', '408', '417', '421', '431'])
  assert.deepEqual([...named], [...statuses].filter((status) => status !== '200').sort())

  const retrying = GUIDE.slice(GUIDE.indexOf('## Retrying'), GUIDE.indexOf('## Bought'))
  for (const [path, methods] of Object.entries(DESCRIPTION.paths)) {
    for (const method of Object.keys(methods).filter((name) => name !== 'get')) {
      const call = `${method.toUpperCase()} ${path.replace('/partner/v1', '')}`
      assert.ok(retrying.includes(call), `${call} is in the table of retries`)
    }
  }
})
