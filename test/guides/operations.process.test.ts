// The guides of an operator, run as they are printed: the README and operations.

import assert from 'node:assert/strict'
import { globSync, readFileSync, symlinkSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { test } from 'node:test'
import { EXIT } from '../../src/cli/exit-codes.ts'
import { temporaryFolder } from '../support/database.ts'
import { hasOwnMachine, outOfOwnMachine, SYSLOG } from '../support/machines.ts'
import { EXECUTABLE, paste } from '../support/process.ts'
import { blocksOf } from '../support/samples.ts'
import { hasTool } from '../support/tools.ts'
import { freePort } from '../support/within.ts'

const ROOT = join(import.meta.dirname, '../..')
const GUIDE = readFileSync(join(ROOT, 'docs/operations.md'), 'utf8')
const REFERENCE = readFileSync(join(ROOT, 'docs/reference.md'), 'utf8')
const BLOCKS = blocksOf(GUIDE, 'sh')

/** The names of copies contain the second: a block that makes one needs another second than the copy before. */
const NEXT_SECOND = 'then=$(date +%s); while [ "$(date +%s)" = "$then" ]; do sleep 0.1; done'

test('the shell blocks work by copy and paste, in their order', async (t) => {
  const tools = ['cron', 'rsyslogd', 'restic'] as const
  if (!hasOwnMachine(t) || !tools.every((tool) => hasTool(t, tool))) return
  const again = BLOCKS.filter((block) => /-(before-upgrade|move)\.db/.test(block))
  assert.equal(again.length, 2)
  const copied = 'mkdir /mnt/copied; cd /mnt/copied; ln -s "$TRANCHE" tranche'
  const state = 'echo ---; ls /var/lib/tranche/backups; find /var/lib/tranche ! -user tranche'
  const blocks = [...BLOCKS, ...again].flatMap((block) =>
    block.includes('date -u') ? [NEXT_SECOND, block] : [block],
  )
  const script = [SYSLOG, copied, ...blocks, state].join('\n')
  const out = await outOfOwnMachine(t, script)
  assert.ok(BLOCKS.length >= 8)
  assert.match(out, /^done {5}\/etc\/cron\.d\/tranche$/m)
  assert.match(out, /^The feed median gave no price /m)
  assert.match(out, /^sse_test_\w+$/m)
  assert.match(out, /restored; the old one is .*\.replaced-/)
  assert.match(out, /database\.restore/)
  // Two are frozen after a restore, and check says so.
  assert.equal(out.match(/^ok$/gm)?.length, 2)
  assert.equal(out.match(/database_frozen/g)?.length, 3)
  // Six copies, the first of them by init, and nothing that belongs to root.
  const backups = out.split('---\n')[1]?.trim().split('\n') ?? []
  for (const name of backups) assert.match(name, /^tranche-\d{8}T\d{6}Z(-before-upgrade|-move)?\.db$/)
  assert.equal(backups.length, 6)
})

test('every kind of finding is explained, and no other', () => {
  const stored = ['src/store/{health,sqlite,postgres}/*.ts', 'src/store/sql/check-rules.ts']
  const files = globSync([...stored, 'src/core/{findings,price}.ts', 'src/cli/service/status.ts'], {
    cwd: ROOT,
  })
  const source = files.map((file) => readFileSync(join(ROOT, file), 'utf8')).join('\n')
  const kinds = new Set(
    [...source.matchAll(/(?:\bkind: |\bticket\(\s*)'([a-z_]+)'/g)].map((match) => match[1]),
  )
  const section = REFERENCE.split('## What check finds')[1]?.split('\n## ')[0] ?? ''
  const named = [...section.matchAll(/^\| (`[^|]*) \|/gm)].flatMap(([, cell = '']) =>
    [...cell.matchAll(/`([a-z_]+)`/g)].map((match) => match[1]),
  )
  assert.deepEqual(named.sort(), [...kinds].sort())
  assert.ok(kinds.size > 15)
})

test('the exit codes are those of the program', () => {
  const section = REFERENCE.split('## Exit codes')[1] ?? ''
  const codes = [...section.matchAll(/^\| (\d+) \|/gm)].map((match) => Number(match[1]))
  assert.deepEqual(codes, Object.values(EXIT))
})

// The README's five-minute path, run as a reader would paste it.

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
  // page says that everything else is the same with it.
  const script = [begin, `export PATH='${dirname(EXECUTABLE)}':"$PATH"`, ...more]
    .join('\n')
    .replaceAll('8080', port)
  const env = { ...process.env, TMPDIR: temporaryFolder(t), TRANCHE_PORT: port }
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
