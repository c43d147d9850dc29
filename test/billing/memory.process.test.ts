// The memory of an export does not grow with its rows.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { finish, SOURCE } from '../support/process.ts'
import { type Office, openMarch } from './books.ts'

const TRADES = ['billing', 'export', '--month', '2025-03', '--report', 'trades']

test('twenty times the trades take no more memory', async (t) => {
  const peak = async (office: Office): Promise<number> => {
    // Not what getrusage says: that counts the parent's memory from before exec as the child's.
    const tell = `import { readFileSync } from 'node:fs'
      process.on('exit', () => process.stderr.write(readFileSync('/proc/self/status')))`
    const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(tell)}` }
    const argv = ['--db', office.file, ...TRADES, '--output', join(office.folder, 'march.csv')]
    const { code, err } = await finish(t, argv, { cwd: office.folder, env, program: SOURCE })
    assert.equal(code, 0, err)
    return Number(/VmHWM:\s+(\d+) kB/.exec(err)?.[1])
  }
  const few = await peak(await openMarch(t, 3_000))
  const many = await peak(await openMarch(t, 60_000))
  assert.ok(many < few * 1.2, `${few} KiB for 3,000 trades, ${many} KiB for 60,000`)
})
