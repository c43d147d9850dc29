// A database belongs on a disk of its own machine.

import assert from 'node:assert/strict'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { refuseNetworkFile } from '../../src/store/sqlite/file/files.ts'
import { temporaryFolder } from '../support/database.ts'
import { problem } from './world.ts'

// The type as statfs(2) tells it; some builds of Node give the ones above 2^31 as negative numbers.
for (const [name, type] of [
  ['NFS', 0x6969],
  ['CIFS', 0xff534d42],
  ['CIFS', 0xff534d42 | 0],
  ['SMB2', 0xfe534d42],
  ['9p', 0x01021997],
  ['Ceph', 0x00c36400],
] as const) {
  test(`a database on ${name} (${type}) is refused by that name`, (t) => {
    const file = join(temporaryFolder(t), 'tranche.db')
    assert.throws(() => refuseNetworkFile(file, () => type), problem('usage'))
    assert.throws(() => refuseNetworkFile(file, () => type), new RegExp(`network file system \\(${name}\\)`))
  })
}

test('local file systems are taken, and what has no file', (t) => {
  const file = join(temporaryFolder(t), 'tranche.db')
  for (const type of [0xef53, 0x58465342, 0x9123683e, 0x01021994, 0x794c7630, 0]) {
    refuseNetworkFile(file, () => type)
  }
  refuseNetworkFile(file)
  refuseNetworkFile(':memory:', () => 0x6969)
  refuseNetworkFile(join(file, 'not', 'there'))
})

test('behind a link it is the place of the file itself that counts', (t) => {
  const folder = temporaryFolder(t)
  mkdirSync(join(folder, 'mount'))
  writeFileSync(join(folder, 'mount', 'real.db'), '')
  symlinkSync(join(folder, 'mount', 'real.db'), join(folder, 'tranche.db'))
  const typeOf = (asked: string) => (asked.endsWith('mount') ? 0x6969 : 0xef53)
  assert.throws(() => refuseNetworkFile(join(folder, 'tranche.db'), typeOf), problem('usage'))
})
