// Mounts that one process sees and nobody else: small disks, and disks that take no writes.

import { spawnSync } from 'node:child_process'
import type { TestContext } from 'node:test'
import type { Program } from '../support/process.ts'

/** A shell in a world of its own; what follows is its script, and what the script calls "$0" and "$@". */
export const MOUNTING: Program = ['unshare', '-m', 'sh', '-c']

/** Whether the test can go on; the run says what it lacks. */
export function mayMount(t: TestContext): boolean {
  const [file, ...first] = MOUNTING
  if (spawnSync(file, [...first, 'mount -t tmpfs none /mnt']).status === 0) return true
  t.diagnostic('NOT TESTED: this user may not mount')
  return false
}
