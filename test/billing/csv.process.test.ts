// Exports as Python's csv module reads them, in strict mode: a reader that is not ours.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { test } from 'node:test'
import { PYTHON } from '../support/process.ts'
import { defused, NASTY, openNasty, REASONS } from './nasty.ts'

/** Reads CSV with Python's csv module, in strict mode: a reader that is not ours. */
function readWithPython(text: string, encoding = 'utf-8'): Record<string, string>[] {
  const script = `import csv, io, json, sys
text = sys.stdin.buffer.read().decode('${encoding}')
print(json.dumps(list(csv.DictReader(io.StringIO(text, newline=''), strict=True))))`
  return JSON.parse(execFileSync(PYTHON, ['-c', script], { input: text, encoding: 'utf8' }))
}

test("Python's csv reads back every cell, formulas defused", async (t) => {
  const office = await openNasty(t)
  const csv = await office.read('billing export --month 2026-01 --report trades')
  const json = JSON.parse(await office.read('billing export --month 2026-01 --report trades --format json'))
  const rows = readWithPython(csv)
  assert.equal(rows.length, NASTY.length + REASONS.length)
  for (const [i, row] of rows.entries()) {
    const wanted = Object.entries(json[i]).map(([name, value]) => [name, defused(String(value ?? ''))])
    assert.deepEqual(row, Object.fromEntries(wanted))
  }
  assert.deepEqual(
    rows.slice(0, NASTY.length).map((row) => row.partner_order_id),
    NASTY.map((name) => defused(`${name}.order`)),
  )
  assert.deepEqual(
    rows.slice(NASTY.length).map((row) => row.failure_reason),
    REASONS.map(defused),
  )
  const users = readWithPython(await office.read('billing export --month 2026-01 --report users'))
  assert.deepEqual(users.map((row) => row.partner_user_id).sort(), NASTY.map(defused).sort())
})

test('--bom begins with one byte order mark and changes nothing else', async (t) => {
  const office = await openNasty(t)
  const argv = 'billing export --month 2026-01 --report trades'
  const [plain, marked] = [await office.read(argv), await office.read(`${argv} --bom`)]
  assert.equal(marked, `\uFEFF${plain}`)
  assert.deepEqual(readWithPython(marked, 'utf-8-sig'), readWithPython(plain))
  const { code, err } = await office.tranche(`${argv} --bom --format json`)
  assert.equal(code, 2)
  assert.match(err, /--bom goes with --format csv/)
})
