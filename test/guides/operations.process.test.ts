// docs/operations.md, run as an operator would paste it, and held against what the program says of itself.

import assert from 'node:assert/strict'
import { globSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { EXIT } from '../../src/cli/exit-codes.ts'
import { blocksOf, paste } from '../support/paste.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const ROOT = join(import.meta.dirname, '../..')
const GUIDE = readFileSync(join(ROOT, 'docs/operations.md'), 'utf8')
const BLOCKS = blocksOf(GUIDE, 'sh')

/** The names of copies have the second in them: a block that is pasted again needs another one. */
const NEXT_SECOND = 'then=$(date +%s); while [ "$(date +%s)" = "$then" ]; do sleep 0.1; done'

test('the shell blocks work by copy and paste, in their order', async (t) => {
  const folder = temporaryFolder(t)
  const env = { DATA: join(folder, 'data'), HOME: folder }
  const again = BLOCKS.filter((block) => /-(before-upgrade|move)\.db/.test(block))
  assert.equal(again.length, 2)
  const script = [...BLOCKS, NEXT_SECOND, ...again].join('\n')
  const { code, out, err } = await paste(t, script, { cwd: folder, env })
  assert.deepEqual([code, err], [0, ''])
  assert.ok(BLOCKS.length >= 7)
  assert.match(out, /restored; the old one is .*\.replaced-/)
  assert.match(out, /database\.restore/)
  assert.equal(out.match(/^ok$/gm)?.length, 5)
  const backups = readdirSync(join(folder, 'data', 'backups'))
  for (const name of backups) assert.match(name, /^tranche-\d{8}T\d{6}Z(-before-upgrade|-move)?\.db$/)
  assert.equal(backups.length, 5)
})

test('the nightly backup of the crontab deletes what is older, and only that', async (t) => {
  const [crontab = ''] = blocksOf(GUIDE, 'crontab')
  const nightly = /^[\d* ]+(\S+ backup .*)$/m.exec(crontab)?.[1] ?? assert.fail('no backup in the crontab')
  const folder = temporaryFolder(t)
  // Cron takes the backslash away, and only before a percent sign.
  const command = nightly
    .replaceAll('\\%', '%')
    .replaceAll('/usr/local/bin/', '')
    .replaceAll('/var/lib/tranche', folder)
  const script = `tranche migrate
    mkdir backups
    touch -d '15 days ago' backups/tranche-old.db backups/another.db
    touch -d '13 days ago' backups/tranche-recent.db
    ${command}`
  const { code, err } = await paste(t, script, { cwd: folder, env: { HOME: folder } })
  assert.deepEqual([code, err], [0, ''])
  const [another, made, recent, ...more] = readdirSync(join(folder, 'backups')).sort()
  assert.deepEqual([another, recent, more], ['another.db', 'tranche-recent.db', []])
  assert.match(made ?? '', /^tranche-\d{8}T\d{6}Z\.db$/)
})

test('every kind of finding is explained, and no other', () => {
  const source = globSync(['src/store/sqlite/health/*.ts', 'src/core/findings.ts'], { cwd: ROOT })
    .map((file) => readFileSync(join(ROOT, file), 'utf8'))
    .join('\n')
  const kinds = new Set(
    [...source.matchAll(/(?:\bkind: |\bticket\(\s*)'([a-z_]+)'/g)].map((match) => match[1]),
  )
  const section = GUIDE.split('## What check finds')[1]?.split('\n## ')[0] ?? ''
  const named = [...section.matchAll(/^\| (`[^|]*) \|/gm)].flatMap(([, cell = '']) =>
    [...cell.matchAll(/`([a-z_]+)`/g)].map((match) => match[1]),
  )
  assert.deepEqual(named.sort(), [...kinds].sort())
  assert.ok(kinds.size > 15)
})

test('the exit codes are those of the program', () => {
  const section = GUIDE.split('## Exit codes')[1] ?? ''
  const codes = [...section.matchAll(/^\| (\d+) \|/gm)].map((match) => Number(match[1]))
  assert.deepEqual(codes, Object.values(EXIT))
})
