// The list of everything that src opens by a name: whoever adds an open has to say why it is safe.

import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const ROOT = join(import.meta.dirname, '../..')
const PAGE = readFileSync(join(ROOT, 'docs/decisions/file.md'), 'utf8')

/** Calls that open a file by its name: of Node, of SQLite, and our own that others use. */
const OPENS =
  /(?<![.\w])(?:openSync|open|readFileSync|readFile|writeFileSync|writeFile|appendFileSync|appendFile|copyFileSync|cpSync|truncateSync|createReadStream|createWriteStream|openFile|openPlain|withPlain|openNamed|openUnlinked|createPrivate|new FileDatabase)\(/
/** What only shares a name with them: a method of the stores, or a closure. */
const OWN_NAMES = /function open\(|open\(tenant|open\(tx|async open\(|^\s+open\(|\bopen\(\)/

const opens = (text: string): boolean =>
  text
    .split('\n')
    .some((line) => !/^\s*(\/\/|\*|\/\*)/.test(line) && !OWN_NAMES.test(line) && OPENS.test(line))

test('each file that opens one by name is on the list in docs/decisions/file.md, and no other', () => {
  const opening = globSync('src/**/*.ts', { cwd: ROOT }).filter((file) =>
    opens(readFileSync(join(ROOT, file), 'utf8')),
  )
  // What a file opens in several ways has a row each.
  const listed = new Set([...PAGE.matchAll(/^\| `(src\/[^`]+)` \|/gm)].map(([, file]) => file))
  assert.deepEqual([...listed].toSorted(), opening.toSorted())
  for (const text of ["openSync(file, 'r')", 'await readFile(name)', 'openFile(file)'])
    assert.ok(opens(text), text)
  for (const text of ['// openSync(file)', 'ledger.open(planId)', '  open(): void {'])
    assert.ok(!opens(text), text)
})
