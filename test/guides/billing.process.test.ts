// docs/billing.md, word for word, as its reader would follow it: the fills are entered, each block is run in its turn,
// and each output equals the page. At its end there are the invoices of two partners.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { EXPORTS } from '../../src/billing/export.ts'
import type { Report } from '../../src/core/confirmation.ts'
import { grouped } from '../../src/core/text.ts'
import { type Instant, parseInstant } from '../../src/core/time.ts'
import { type Entry, type Office, openOffice, utc } from '../billing/books.ts'
import { each } from '../store/world.ts'
import { paste, SOURCE } from '../support/process.ts'

const GUIDE = readFileSync(join(import.meta.dirname, '../../docs/billing.md'), 'utf8')
const PARTNERS = ['acme', 'bolt']
const CORRECTED = utc(2026, 9, 22, 9)
const NOVEMBER = utc(2026, 10)
const INVOICED = utc(2026, 10, 2)

const at = (text: string): Instant => {
  const parsed = parseInstant(text)
  assert.ok(parsed.ok, text)
  return parsed.at
}

/** The rows of the table of fills, each with its partner. */
function fills(): { partner: string; entry: Entry }[] {
  const rows = [...GUIDE.matchAll(/^\| (2026-.*) \|$/gm)].map(([, row = '']) =>
    row.split('|').map((cell) => cell.trim()),
  )
  return rows.map(([recorded = '', partner = '', user = '', order = '', status, usd, btc, executed]) => ({
    partner,
    entry: {
      user,
      order,
      at: at(recorded),
      status: status as Report['status'],
      ...(usd && { usd }),
      ...(btc && { btc }),
      ...(executed && { executedAt: at(executed) }),
    },
  }))
}

/** A block of text is the output of the commands before it. */
type Block = { language: 'sh' | 'console' | 'text'; text: string }

const blocksOf = (text: string): Block[] =>
  [...text.matchAll(/```(sh|console|text)\n([\s\S]*?)```/g)].map(
    ([, language, text = '']): Block => ({ language: language as Block['language'], text }),
  )

/** The beginning of the guide runs once the example month is over, and before the invoices are made. */
const BLOCKS = ((): Block[] => {
  const [before = '', first = ''] = GUIDE.split(/^(?=## Settings)/m)
  const [example = '', after = ''] = first.split(/^(?=## Making the invoices)/m)
  const trades = (blocks: Block[]) => blocks.findIndex(({ text }) => text.includes('trade adjust')) + 1
  const made = blocksOf(example)
  return [
    ...made.slice(0, trades(made)),
    ...blocksOf(before),
    ...made.slice(trades(made)),
    ...blocksOf(after),
  ]
})()

/** Every command of a console block with its printed output. */
const commandsOf = ({ text }: Block): { line: string; printed: string }[] =>
  text
    .split(/^\$ tranche /m)
    .slice(1)
    .map((one) => {
      const end = one.indexOf('\n')
      return { line: one.slice(0, end), printed: one.slice(end + 1) }
    })

/** The guide shortens ids, which tell its reader nothing. */
const shortened = (text: string) => plain(text).replaceAll(/exec_0+[0-9a-f]+/g, 'exec_...')

const plain = (text: string) => text.replaceAll('\r', '').replaceAll(/ +$/gm, '')

async function compareConsole(office: Office, block: Block): Promise<void> {
  const commands = commandsOf(block)
  assert.ok(commands.length > 0)
  for (const { line, printed } of commands) {
    const [argv = '', ...filter] = line.split(' | ')
    // The settings are in the folder of the office, where the blocks are pasted.
    let out = await office.read(argv.replace(/(?<=--settings )/, `${office.folder}/`))
    if (filter.length > 0)
      out = execFileSync('bash', ['-c', filter.join(' | ')], { input: out, encoding: 'utf8' })
    assert.equal(shortened(out), printed, line)
  }
}

/** Pastes a block in the office's folder, whose `tranche` is the source at the office's time. */
async function pasteThere(t: Parameters<typeof paste>[0], office: Office, block: Block): Promise<string> {
  const clock = join(import.meta.dirname, '../clock/shift.mjs')
  const [node, ...first] = SOURCE
  const program = [node, '--import', clock, ...first].map((word) => `'${word}'`).join(' ')
  const env = { ...process.env, TRANCHE_DB: office.file, AT_MS: String(office.clock()) }
  const script = `tranche() { ${program} "$@"; }\n${block.text}`
  const { code, out, err } = await paste(t, script, { cwd: office.folder, env })
  assert.equal(code, 0, `${block.text}\n${out}${err}`)
  return out
}

function enter(office: Office, wanted: (entry: Entry) => boolean): void {
  for (const { partner, entry } of fills()) if (wanted(entry)) office.enter(partner, 'live', [entry])
}

/** The whole guide, block by block. */
async function walk(t: Parameters<typeof paste>[0], office: Office): Promise<string[]> {
  const pasted: string[] = []
  const correction = BLOCKS.findIndex(({ text }) => text.includes('trade adjust'))
  assert.ok(correction > 0, 'the guide corrects a fill')
  for (const [i, block] of BLOCKS.entries()) {
    if (i === correction) {
      enter(office, (entry) => entry.at < CORRECTED)
      office.setClock(CORRECTED)
    }
    if (block.language === 'console') await compareConsole(office, block)
    else if (block.language === 'text') assert.equal(shortened(pasted.at(-1) ?? ''), block.text)
    else pasted.push(await pasteThere(t, office, block))
    if (i === correction) {
      enter(office, (entry) => entry.at >= NOVEMBER)
      office.setClock(INVOICED)
      await office.read('check')
    }
  }
  return pasted
}

test("October's invoices for two partners, with an adjustment, are made by the guide alone", async (t) => {
  const office = await openOffice(t, utc(2026, 9), PARTNERS)
  assert.deepEqual(fills().length, 7)
  const pasted = await walk(t, office)

  const summary = await office.json('billing show --month 2026-10 --json')
  const [adjustment, ...others] = await office.json('billing adjustments --month 2026-10 --json')
  assert.deepEqual([others.length, adjustment.usd_difference], [0, '-10.00'])
  for (const [i, partner] of PARTNERS.entries()) {
    const { total_fee_usd, volume_usd } = summary[i]
    const html = readFileSync(join(office.folder, `${partner}-2026-10.html`), 'utf8')
    assert.match(html, new RegExp(`<td class="amount">${total_fee_usd}</td>`))
    assert.match(html, new RegExp(`<td class="amount">${grouped(volume_usd)}</td>`))
    // A bookkeeper's own tools find the same volume in the file that the guide made.
    assert.ok(pasted.some((out) => out.split('\n').includes(`${partner}|${volume_usd}`)))
  }
  const html = readFileSync(join(office.folder, 'acme-2026-10.html'), 'utf8')
  for (const words of ['Acme Exchange Ltd', 'the venue filled 240.00', adjustment.execution_id, 'DE 123'])
    assert.ok(html.includes(words), words)
  assert.ok(!html.includes('Acme Exchange plc'), 'an address of later does not count yet')
  assert.ok(!html.includes('Bolt'), "nothing of the other partner's")

  // A year later, after the address has changed, the file is unchanged.
  office.setClock(utc(2027, 10))
  const again = `billing invoice --partner acme --month 2026-10 --settings ${join(office.folder, 'billing.json')}`
  assert.equal(await office.read(again), html)
})

test('every column of every report is explained', () => {
  for (const [report, { columns }] of Object.entries(EXPORTS)) {
    const section = GUIDE.split(`### ${report}:`)[1]?.split('\n### ')[0] ?? ''
    const explained = [...section.matchAll(/^\| ([a-z_, ]+) \|/gm)].flatMap(([, names = '']) =>
      names.split(', '),
    )
    const names = explained.filter((name) => name !== 'column')
    assert.deepEqual(names, each(columns, 'name'), report)
  }
})
