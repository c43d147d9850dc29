// docs/examples/README.md against the programs: the settings it names are those they read, in both languages.

import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const EXAMPLES = join(import.meta.dirname, '../../docs/examples')
const textOf = (pattern: string): string =>
  globSync(pattern, { cwd: EXAMPLES })
    .map((file) => readFileSync(join(EXAMPLES, file), 'utf8'))
    .join('\n')
const sorted = (names: Iterable<string>): string[] => [...new Set(names)].sort()

test('the page names every setting, and only those there are', () => {
  const python = [...textOf('python/*.py').matchAll(/environ\.get\("(\w+)"/g)].map(([, name = '']) => name)
  const settings = [...textOf('javascript/*.mjs').matchAll(/^const \{([^}]+)\} = process\.env$/gm)]
  const javascript = settings.flatMap(([, block = '']) => block.match(/\b[A-Z][A-Z_]+\b(?=[, =])/g) ?? [])
  const table = textOf('README.md').split('## Settings')[1]?.split('## ')[0] ?? ''
  const rows = [...table.matchAll(/^\| (`[^|]+`) \|/gm)].flatMap(
    ([, names = '']) => names.match(/[A-Z_]+/g) ?? [],
  )
  assert.ok(python.length > 5)
  assert.deepEqual(sorted(javascript), sorted(python))
  assert.deepEqual(sorted(rows), sorted(python))
})
