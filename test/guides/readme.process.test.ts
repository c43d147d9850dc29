// The README's five-minute path, run as a reader would paste it.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync, symlinkSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../support/database.ts'
import { EXECUTABLE, paste } from '../support/process.ts'
import { blocksOf } from '../support/samples.ts'
import { freePort } from '../support/within.ts'

const ROOT = join(import.meta.dirname, '../..')
const README = readFileSync(join(ROOT, 'README.md'), 'utf8')

/** The shell blocks of one section, in order. */
function blocksIn(section: string): string[] {
  const body = README.split(/^## /m).find((part) => part.startsWith(section))
  assert.ok(body, `README has a section "${section}"`)
  return blocksOf(body, 'sh')
}
const shellOf = (section: string): string => blocksIn(section).join('\n')

test('the five-minute path works by copy and paste', async (t) => {
  const port = String(await freePort())
  const [begin = '', ...more] = blocksIn('Your first partner')
  assert.match(begin, /^export PATH="\$PWD\/bin:[\s\S]*tranche serve /)
  // The service runs from the checkout, as written. After that the executable, which starts in a third of the time: the
  // page says that all else is the same with it.
  const script = [begin, `export PATH='${dirname(EXECUTABLE)}':"$PATH"`, ...more]
    .join('\n')
    .replaceAll('8080', port)
  const env = { ...process.env, TRANCHE_PORT: port }
  const month = shellOf('A month for finance')
  const { code, out, err } = await paste(t, `${script}\nwait\n${month}`, { cwd: ROOT, env, jobs: true })
  assert.equal(code, 0, err)
  assert.match(out, /"partner_name":"Acme Exchange"/)
  assert.match(out, /"executions_created":1/)
  assert.match(out, /"idempotency_key":"plan-1:/)
  assert.match(out, /"ok":true,.*"partner_order_id":"order-1"\}\n/)
  assert.match(out, /"replayed":true/)
  assert.match(out, /SPENT +RELEASED/)
  assert.match(out, /trigger +slot_start/)
  assert.match(out, /^in test +1 plan active, .*: tranche status --env test\n/m)
  assert.match(out, /^environment +test\nplans +1 active/m)
  assert.match(out, /^ok$/m)
  assert.match(out, /^acme live +0 /m)
  assert.match(out, /users, trades and summary agree \(live, 1 partner, 0 trades\)/)
  assert.match(err, /^Provisional invoice of 0\.00 USD in acme-.*\.html\.$/m)
  assert.doesNotMatch(out, /Internal Server Error|"detail"/)
})

test('who has only the executable checks it, runs it and reads the guides', async (t) => {
  const folder = temporaryFolder(t)
  const build = dirname(EXECUTABLE)
  for (const name of [basename(EXECUTABLE), 'tranche.sha256'])
    symlinkSync(join(build, name), join(folder, name))
  const env = { HOME: folder, PATH: '/usr/bin:/bin' }
  const { code, out, err } = await paste(t, shellOf('The executable alone'), { cwd: folder, env })
  assert.deepEqual([code, err], [0, ''])
  assert.match(out, /^tranche: OK\n\d+\.\d+\.\d+\n/)
  assert.match(out, /^operations +Operating tranche$/m)
})

test('the README names every command there is', () => {
  const help = execFileSync(EXECUTABLE, ['--help'], { encoding: 'utf8' })
  const commands = [...help.matchAll(/^ {2}([a-z][a-z-]*)[ |]/gm)].map(([, name]) => name)
  const table = README.slice(README.indexOf('## The commands'))
  const missing = commands.filter((name) => name !== 'help' && !table.includes(`\`${name}`))
  assert.deepEqual(missing, [])
  assert.ok(commands.length > 10, `help lists the commands (${commands})`)
})
