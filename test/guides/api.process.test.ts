// The guides of a partner's developer, run as they are printed: the API and the sandbox.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { DESCRIPTION } from '../openapi/described.ts'
import { temporaryFolder } from '../support/database.ts'
import { PYTHON, paste } from '../support/process.ts'
import { blocksOf } from '../support/samples.ts'
import { freePort } from '../support/within.ts'

const ROOT = join(import.meta.dirname, '../..')
const GUIDE = readFileSync(join(ROOT, 'docs/api.md'), 'utf8')
const STRICT =
  '--noEmit --strict --noUncheckedIndexedAccess --exactOptionalPropertyTypes --target esnext --module nodenext ' +
  '--skipLibCheck --types node --allowImportingTsExtensions --ignoreConfig'

/** The types that the guide's generator makes from the description. */
async function typesOf(description: unknown): Promise<string> {
  // The generator writes syntax trees with TypeScript's own library, which the current compiler no longer has.
  const hooks = registerHooks({
    resolve: (name, context, next) => next(name === 'typescript' ? 'typescript-5' : name, context),
  })
  try {
    const { default: openapiTS, astToString } = await import('openapi-typescript')
    return astToString(await openapiTS(structuredClone(description) as never))
  } finally {
    hooks.deregister()
  }
}

test('the whole guide works by copy and paste, and its TypeScript compiles under strict rules', async (t) => {
  // As its reader has it: the program, the types, and the packages installed.
  const folder = temporaryFolder(t)
  const [program = assert.fail('the guide has a program')] = blocksOf(GUIDE, 'ts')
  assert.match(program, /^\/\/ client\.ts\n/)
  writeFileSync(join(folder, 'client.ts'), program)
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  writeFileSync(join(folder, 'tranche.d.ts'), await typesOf(DESCRIPTION))
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  const tsc = join(ROOT, 'node_modules/.bin/tsc')
  const compiled = spawnSync(tsc, [...STRICT.split(' '), 'client.ts'], { cwd: folder, encoding: 'utf8' })
  assert.equal(compiled.status, 0, compiled.stdout)
  const port = String(await freePort())
  // Packages are not fetched in a test: the folder has them, and the types of the same generator.
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
  const recorded = out.match(/^exec_[0-9a-f]{32} recorded \{.*"status": ?"filled"/gm)
  assert.equal(recorded?.length, 2, `TypeScript and Python recorded one each: ${out}`)
  assert.match(out, /"executions_filled":3,/)
  assert.doesNotMatch(out, /"detail"/)
  const description = JSON.parse(readFileSync(join(folder, 'openapi.json'), 'utf8'))
  assert.deepEqual(description, DESCRIPTION)
})

test('the guide has every route that changes something in the table of retries', () => {
  const retrying = GUIDE.slice(GUIDE.indexOf('## Retrying'), GUIDE.indexOf('## Bought'))
  for (const [path, methods] of Object.entries(DESCRIPTION.paths)) {
    for (const method of Object.keys(methods).filter((name) => name !== 'get')) {
      const call = `${method.toUpperCase()} ${path.replace('/partner/v1', '')}`
      assert.ok(retrying.includes(call), `${call} is in the table of retries`)
    }
  }
})

// docs/sandbox.md, pasted into a shell as its reader would.

const SANDBOX_GUIDE = readFileSync(join(ROOT, 'docs/sandbox.md'), 'utf8')

test('the guide leads from nothing to a month by copy and paste', async (t) => {
  const port = String(await freePort())
  const script = blocksOf(SANDBOX_GUIDE, 'sh')
    .join('\n')
    // The guide uses the default port; the test must not.
    .replaceAll('127.0.0.1:8080', `127.0.0.1:${port}`)
  const env = {
    HOME: process.env.HOME,
    PATH: [dirname(PYTHON), process.env.PATH].join(':'),
    TMPDIR: temporaryFolder(t),
    TRANCHE_PORT: port,
  }
  const whole = `trap 'kill %1 2> /dev/null || true' EXIT\n${script}\nwait\necho the log:\ncat partner.log`
  const { code, out, err } = await paste(t, whole, { cwd: temporaryFolder(t), env, jobs: true })
  assert.equal(code, 0, `${out}\n${err}`)
  assert.match(out, /trigger +slot_start/)
  assert.match(out, /"ok":true,.*"partner_order_id":"order-1"\}\n/)
  assert.match(out, /executions_created +1\d\d\nwindows_rolled +30\n/)
  // The outcomes after a failed tranche, as the guide says. The amounts depend on when the partner confirmed.
  assert.match(out, / failed +\S+ .*\n(?:.* filled +\S+ .*\n){2}.* filled +10\.00 .*\n/)
  assert.match(
    out,
    / 60\.00 +0\.00 +60\.00 +0\.00 +0\.00 +0\.00 +ended\n.* 60\.00 +0\.00 +10\.00 +0\.00 +50\.00 +0\.00 +-\n\n/,
  )
  // The present month, whatever the day: all instructions processed before, and order-1 if it is in the same month.
  const [, report = '', log = ''] = out.split(/^PARTNER .*\n|^the log:\n/m)
  const count = (status: string) =>
    log.match(new RegExp(`^exec_\\S+ recorded .*"${status}"`, 'gm'))?.length ?? 0
  assert.ok(count('partial') > 0 && count('failed') > 1, log)
  // Three of the next day were filled after the report.
  const trades = count('filled') + count('partial') - 3
  assert.ok(trades > 80, log)
  assert.match(report, new RegExp(`^acme test +(${trades}|${trades + 1}) .*not billed\\n`))
  // The status of the guide: nothing about the purchases, and two lines about the sandbox.
  assert.match(out, /^plans +0 active, 0 paused, 0 cancelled\n/m)
  assert.match(out, /^orders in 24 h +0 filled, 0 failed\n/m)
  assert.match(out, /^in test +1 plan active, \d+ executions? open, \d+ due: tranche status --env test\n/m)
  assert.match(out, /sandboxes +acme test is 31 d ahead/)
  assert.match(out, /^ok$/m)
  assert.match(out, /^plans +1\nwindows +32\n/m)
  assert.doesNotMatch(out, /Internal Server Error|"detail"/)
})
