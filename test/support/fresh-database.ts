// An empty database at the schema of today, for the tests that need one: each process makes one and copies it.

import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Instant } from '../../src/core/instant.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import type { Store } from '../../src/store/store.ts'

let made: Promise<string> | undefined

/** Opens an empty database at `file`, where there is none. */
export async function openFresh(file: string, clock: () => Instant): Promise<Store> {
  made ??= makeEmpty()
  copyFileSync(await made, file)
  return openStore(file, { clock, create: false })
}

async function makeEmpty(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'tranche-test-'))
  process.once('exit', () => rmSync(folder, { recursive: true }))
  const file = join(folder, 'empty.db')
  const store = await openStore(file, { clock: () => 0 as Instant, create: true })
  store.close()
  return file
}
