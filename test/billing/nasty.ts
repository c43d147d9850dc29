// A month whose ids and reasons are what spreadsheets and careless CSV readers stumble over.

import { type Entry, type Office, openOffice, utc } from './books.ts'

export const NASTY = [
  'plain',
  '=1+1',
  '+49 30 1',
  '-1',
  '@SUM(A1)',
  'a,b',
  'say "no"',
  '"',
  ' = spaced',
  "'=quoted",
  'Zoë ₿ 漢字 🙂',
  '1e5',
  '007',
  '=HYPERLINK("http://x";"y")',
]
export const REASONS = ['two\nlines', 'two\r\nlines', '\tTAB', '\rCR', '=cmd|x', '-5.00', 'a, "b"']

export async function openNasty(t: Parameters<typeof openOffice>[0]): Promise<Office> {
  const office = await openOffice(t, utc(2026, 0))
  const entries: Entry[] = NASTY.map((name, i) => ({
    user: name,
    plan: `${name}.plan`,
    order: `${name}.order`,
    at: utc(2026, 0, 2, i),
    usd: '10.00',
  }))
  entries.push(...REASONS.map((reason, i) => ({ user: 'plain', at: utc(2026, 0, 3, i), reason })))
  office.enter('acme', 'live', entries)
  office.setClock(utc(2026, 1))
  return office
}

/** As a cell shows it: a text that a spreadsheet would take for a formula begins with an apostrophe. */
export const defused = (text: string): string => (/^[=+\-@\t\r]/.test(text) ? `'${text}` : text)
