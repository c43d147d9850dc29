// docs/billing.md, word for word: its fills are entered, its commands run, and what they print is what it says.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { EXPORTS } from '../../src/billing/export.ts'
import { type Instant, parseInstant } from '../../src/core/instant.ts'
import type { Report } from '../../src/core/report.ts'
import { type Entry, openOffice, utc } from '../billing/books.ts'

const GUIDE = readFileSync(join(import.meta.dirname, '../../docs/billing.md'), 'utf8')

const at = (text: string): Instant => {
  const parsed = parseInstant(text)
  assert.ok(parsed.ok, text)
  return parsed.at
}

/** The rows of the table of fills. */
function fills(): Entry[] {
  const rows = [...GUIDE.matchAll(/^\| (2026-.*) \|$/gm)].map(([, row = '']) =>
    row.split('|').map((cell) => cell.trim()),
  )
  return rows.map(([recorded = '', user = '', order = '', status, usd, btc, price, fee, executed]) => ({
    user,
    order,
    at: at(recorded),
    status: status as Report['status'],
    ...(usd && { usd }),
    ...(btc && { btc }),
    ...(price && { price }),
    ...(fee && { fee }),
    ...(executed && { executedAt: at(executed) }),
  }))
}

/** Every command of the console blocks with what is printed under it. */
function commands(): { line: string; printed: string }[] {
  const blocks = [...GUIDE.matchAll(/```console\n([\s\S]*?)```/g)].map(([, block = '']) => block)
  return blocks.flatMap((block) =>
    block
      .split(/^\$ tranche /m)
      .slice(1)
      .map((text) => {
        const end = text.indexOf('\n')
        return { line: text.slice(0, end), printed: text.slice(end + 1) }
      }),
  )
}

test('every figure of the guide is what the program prints', async (t) => {
  const office = await openOffice(t, utc(2026, 9))
  const entries = fills()
  assert.equal(entries.length, 6)
  const [first] = commands()
  const plain = (text: string) => text.replaceAll('\r', '').replaceAll(/ +$/gm, '')
  assert.equal(await office.read(first?.line ?? ''), first?.printed)
  office.enter('acme', 'live', entries)
  await office.read('check')
  office.setClock(utc(2026, 10, 2))
  for (const { line, printed } of commands().slice(1)) {
    const [argv = '', ...filter] = line.split(' | ')
    let out = await office.read(argv)
    if (filter.length > 0)
      out = execFileSync('bash', ['-c', filter.join(' | ')], { input: out, encoding: 'utf8' })
    // The guide cuts ids short, which say nothing to its reader.
    assert.equal(plain(out).replaceAll(/exec_0+[0-9a-f]+/g, 'exec_...'), printed, line)
  }
  assert.ok(commands().length > 6)
})

test('the one-liner for the volume counts adjustments, as the summary does', async (t) => {
  const office = await openOffice(t, utc(2026, 9))
  office.enter('acme', 'live', fills().slice(0, 1))
  const { execution_id } = JSON.parse(await office.read('execution list --json'))[0]
  office.setClock(utc(2026, 9, 6))
  await office.read(`trade adjust ${execution_id} --usd 249.00 --btc 0.00389063 --reason wrong`)
  const oneLiner = commands().find(({ line }) => line.includes('usd += $9'))?.line ?? ''
  const [argv = '', filter = ''] = oneLiner.split(' | ')
  const out = execFileSync('bash', ['-c', filter], { input: await office.read(argv), encoding: 'utf8' })
  const [summary] = JSON.parse(await office.read('billing show --month 2026-10 --json'))
  assert.equal(out, `${summary.volume_usd} ${summary.volume_btc}\n`)
  assert.equal(summary.volume_usd, '249.00')
})

test('every column of every report is explained', () => {
  for (const [report, { columns }] of Object.entries(EXPORTS)) {
    const section = GUIDE.split(`### ${report}:`)[1]?.split('\n### ')[0] ?? ''
    const explained = [...section.matchAll(/^\| ([a-z_, ]+) \|/gm)].flatMap(([, names = '']) =>
      names.split(', '),
    )
    const names = columns.map(({ name }) => name)
    assert.deepEqual(
      explained.filter((name) => name !== 'column'),
      names,
      report,
    )
  }
})

test('the guide links to pages that exist', () => {
  const links = [...GUIDE.matchAll(/\]\((decisions\/[^)]+)\)/g)].map(([, link = '']) => link)
  assert.ok(links.length >= 4)
  for (const link of links)
    assert.match(readFileSync(join(import.meta.dirname, '../../docs', link), 'utf8'), /^# \d+\. /)
})
