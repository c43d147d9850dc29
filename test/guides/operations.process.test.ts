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

test('the shell blocks work by copy and paste, in their order', async (t) => {
  const folder = temporaryFolder(t)
  const env = { DATA: join(folder, 'data'), HOME: folder }
  const { code, out, err } = await paste(t, BLOCKS.join('\n'), { cwd: folder, env })
  assert.deepEqual([code, err], [0, ''])
  assert.ok(BLOCKS.length >= 7)
  assert.match(out, /restored; the old one is .*\.replaced-/)
  assert.match(out, /database\.restore/)
  assert.equal(out.match(/^ok$/gm)?.length, 4)
  const backups = readdirSync(join(folder, 'data', 'backups')).sort()
  assert.equal(backups.length, 3)
  assert.match(backups.join(' '), /^before-upgrade\.db move\.db tranche-\d{8}T\d{6}Z\.db$/)
})

test('every kind of finding is explained, and no other', () => {
  const source = globSync('src/store/sqlite/{health/*,ledger/adjustments}.ts', { cwd: ROOT })
    .map((file) => readFileSync(join(ROOT, file), 'utf8'))
    .join('\n')
  const kinds = new Set([...source.matchAll(/\bkind: '([a-z_]+)'/g)].map((match) => match[1]))
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
