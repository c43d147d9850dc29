// Folders for the files of one test, and of all tests of a process.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'

/**
 * A folder that is gone when the test ends. Its hooks run in the order in which they were made, and a process that
 * still writes would be in the way: the last of them removes the folder, after whatever was started in it is ended.
 */
export function temporaryFolder(t: Pick<TestContext, 'after'>): string {
  const folder = mkdtempSync(join(tmpdir(), 'tranche-test-'))
  t.after(() => t.after(() => rmSync(folder, { recursive: true, force: true })))
  return folder
}

/** A folder that is gone when the process ends: for what its tests make once and copy. */
export function folderOfProcess(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tranche-test-'))
  process.once('exit', () => rmSync(folder, { recursive: true }))
  return folder
}
