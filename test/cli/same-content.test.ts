// Whether two files are taken for alike: also when they differ in their last byte alone, and far from the start.

import assert from 'node:assert/strict'
import { linkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { haveSameContent } from '../../src/cli/init/own-files.ts'
import { temporaryFolder } from '../support/database.ts'

const MIB = 1 << 20

test('files are alike when every byte is', (t) => {
  const folder = temporaryFolder(t)
  const [one, other] = [join(folder, 'one'), join(folder, 'other')]
  for (const size of [0, 1, MIB - 1, MIB, MIB + 1, 2 * MIB]) {
    const content = Buffer.alloc(size, 'tranche')
    writeFileSync(one, content)
    writeFileSync(other, content)
    assert.ok(haveSameContent(one, other), `${size} bytes`)
    if (size === 0) continue
    writeFileSync(other, content.subarray(1))
    assert.ok(!haveSameContent(one, other), `${size} bytes and one less`)
    content[size - 1] = 0
    writeFileSync(other, content)
    assert.ok(!haveSameContent(one, other), `the last of ${size} bytes`)
  }
  linkSync(one, join(folder, 'link'))
  assert.ok(haveSameContent(one, join(folder, 'link')))
  assert.throws(() => haveSameContent(one, join(folder, 'none')), { code: 'ENOENT' })
})
