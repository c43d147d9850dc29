// Tables: columns that line up on a terminal, whatever their contents.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { partnerTable } from '../../src/cli/service/status-text.ts'
import { type Column, layTable, renderFields, renderTable } from '../../src/cli/terminal.ts'

type Row = { name: string; count: number | null; ok: boolean }
const COLUMNS: Column<Row>[] = [
  { title: 'NAME', of: (row) => row.name },
  { title: 'COUNT', of: (row) => row.count, right: true },
  { title: 'OK', of: (row) => row.ok },
]
const row = (name: string, count: number | null = 1, ok = true): Row => ({ name, count, ok })

test('numbers go to the right, nothing is a hyphen, and no line ends in blanks', async () => {
  const text = await renderTable(COLUMNS, [row('a', 12_345), row('long name', null, false)])
  assert.equal(text, ['NAME       COUNT  OK', 'a          12345  yes', 'long name      -  no'].join('\n'))
})

test('characters that take two columns are counted as two', async () => {
  const text = await renderTable(COLUMNS, [row('計画'), row('e\u0301te\u0301'), row('👍')])
  const lines = ['計画      1  yes', 'e\u0301te\u0301       1  yes', '👍        1  yes']
  assert.deepEqual(text.split('\n'), ['NAME  COUNT  OK', ...lines])
})

test('a cell is one line, whatever is in it', async () => {
  const text = await renderTable(COLUMNS, [row('a\nb\u202ec\u200b', 7), row('x', 8)])
  assert.deepEqual(text.split('\n'), [
    'NAME               COUNT  OK',
    'a\\nb\\u202ec\\u200b      7  yes',
    'x                      8  yes',
  ])
})

test('a field is one line, whatever is in it', () => {
  const text = renderFields({ reason: 'a\nstatus  filled', b: null })
  assert.equal(text, 'reason  a\\nstatus \\u0020filled\nb       -')
})

test('the widest row sets the width of its column for every row, however far down it is', async () => {
  const rows = Array.from({ length: 500 }, (_, n) => row(n === 499 ? 'x'.repeat(40) : 'x', n))
  const lines = (await renderTable(COLUMNS, rows)).split('\n')
  assert.equal(lines.length, 501)
  assert.deepEqual(new Set(lines.slice(1).map((line) => line.indexOf('yes'))), new Set([49]))
})

test('laid out in parts, a table has its titles once, and no column gets narrower', async () => {
  const lay = await layTable(COLUMNS)
  assert.equal(lay([row('abcdefgh')]), 'NAME      COUNT  OK\nabcdefgh      1  yes')
  assert.equal(lay([row('a', 123_456)]), 'a         123456  yes')
  assert.equal(lay([row('b')]), 'b              1  yes')
})

test('without rows there are the titles', async () => {
  assert.equal(await renderTable(COLUMNS, []), 'NAME  COUNT  OK')
})

// The partners of a status as a table: a long text of a partner takes no more than its column.

test('a long reason is cut, and a short one is not', async () => {
  const of = async (reason: string) => {
    const at = '2026-01-05T00:00:00.000Z'
    const row = {
      partner_slug: 'acme',
      last_poll_at: at,
      last_confirm_at: null,
      due_backlog: 0,
      oldest_due_age_seconds: null,
      orders_24h: { filled: 0, failed: 9, commonest_failure_reason: reason },
    } as never
    const [table = ''] = await partnerTable({ at, by_partner: [row], findings: [] })
    return table.split('\n')[1]?.split(/ {2,}/).at(-1)
  }
  assert.equal(await of('market closed'), 'market closed')
  assert.equal(await of('x'.repeat(40)), 'x'.repeat(40))
  assert.equal(await of('é'.repeat(2_000)), `${'é'.repeat(39)}…`)
})
