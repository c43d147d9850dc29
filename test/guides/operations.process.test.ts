// docs/operations.md, run as an operator would paste it, and docs/reference.md against what the program says of itself.

import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { EXIT } from '../../src/cli/exit-codes.ts'
import { VITAL_FINDINGS } from '../../src/core/findings.ts'
import { hasOwnMachine, onOwnMachine, SYSLOG } from '../support/machines.ts'
import { blocksOf } from '../support/samples.ts'
import { hasTool } from '../support/tools.ts'

const ROOT = join(import.meta.dirname, '../..')
const GUIDE = readFileSync(join(ROOT, 'docs/operations.md'), 'utf8')
const REFERENCE = readFileSync(join(ROOT, 'docs/reference.md'), 'utf8')
const BLOCKS = blocksOf(GUIDE, 'sh')

/** The names of copies have the second in them: a block that is pasted again needs another one. */
const NEXT_SECOND = 'then=$(date +%s); while [ "$(date +%s)" = "$then" ]; do sleep 0.1; done'

test('the shell blocks work by copy and paste, in their order', async (t) => {
  const tools = ['cron', 'rsyslogd', 'restic'] as const
  if (!hasOwnMachine(t) || !tools.every((tool) => hasTool(t, tool))) return
  const again = BLOCKS.filter((block) => /-(before-upgrade|move)\.db/.test(block))
  assert.equal(again.length, 2)
  const copied = 'mkdir /mnt/copied; cd /mnt/copied; ln -s "$TRANCHE" tranche'
  const state = 'echo ---; ls /var/lib/tranche/backups; find /var/lib/tranche ! -user tranche'
  const script = [SYSLOG, copied, ...BLOCKS, NEXT_SECOND, ...again, state].join('\n')
  const { code, out, err } = await onOwnMachine(t, script)
  assert.deepEqual([code, err], [0, ''], out)
  assert.ok(BLOCKS.length >= 8)
  assert.match(out, /^done {5}\/etc\/cron\.d\/tranche$/m)
  assert.match(out, /^The feed median gave no price /m)
  assert.match(out, /^sse_test_\w+$/m)
  assert.match(out, /restored; the old one is .*\.replaced-/)
  assert.match(out, /database\.restore/)
  // Of the two that stand still after a restore, check says so.
  assert.equal(out.match(/^ok$/gm)?.length, 2)
  assert.equal(out.match(/database_restored/g)?.length, 3)
  // Six copies, the first of them by init, and nothing that belongs to root.
  const backups = out.split('---\n')[1]?.trim().split('\n') ?? []
  for (const name of backups) assert.match(name, /^tranche-\d{8}T\d{6}Z(-before-upgrade|-move)?\.db$/)
  assert.equal(backups.length, 6)
})

test('every kind of finding is explained, and no other', () => {
  const source = globSync(
    [
      'src/store/{health,sqlite,postgres}/*.ts',
      'src/store/sql/check-rules.ts',
      'src/core/{findings,price}.ts',
    ],
    {
      cwd: ROOT,
    },
  )
    .map((file) => readFileSync(join(ROOT, file), 'utf8'))
    .join('\n')
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

test('the findings that status shows come first in the table of warnings, up to the one the guide names', () => {
  const last = /in the table from the first to\s+`([a-z_]+)` are also in `status`/.exec(REFERENCE)?.[1]
  const warnings = REFERENCE.split('| warning |')[1]?.split('\n\n')[0] ?? ''
  const kinds = [...warnings.matchAll(/^\| `([a-z_]+)` \|/gm)].map(([, kind]) => kind)
  assert.deepEqual(kinds.slice(0, kinds.indexOf(last) + 1).sort(), Object.keys(VITAL_FINDINGS).sort())
})

test('the exit codes are those of the program', () => {
  const section = REFERENCE.split('## Exit codes')[1] ?? ''
  const codes = [...section.matchAll(/^\| (\d+) \|/gm)].map((match) => Number(match[1]))
  assert.deepEqual(codes, Object.values(EXIT))
})
