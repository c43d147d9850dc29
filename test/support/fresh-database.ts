// An empty database at the schema of today, for the tests that need one: each process makes one and copies it.

import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Instant } from '../../src/core/time.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import type { Store } from '../../src/store/store.ts'
import { folderOfProcess } from './temporary-folder.ts'

let made: Promise<string> | undefined

/** Opens an empty database at `file`, where there is none. */
export async function openFresh(file: string, clock: () => Instant): Promise<Store> {
  await layFresh(file)
  return openStore(file, { clock, create: false })
}

/** Puts an empty database where there is none: its migrations take longer than most of what a test does with it. */
export async function layFresh(file: string): Promise<void> {
  made ??= makeEmpty()
  copyFileSync(await made, file)
}

async function makeEmpty(): Promise<string> {
  const file = join(folderOfProcess(), 'empty.db')
  const store = await openStore(file, { clock: () => 0 as Instant, create: true })
  store.close()
  return file
}
