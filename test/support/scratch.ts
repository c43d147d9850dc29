// Where tests make their temporary files: in memory if there is a folder for it with room for what they write.

import { statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'

const MEMORY = '/dev/shm'
const MEMORY_BYTES_MIN = 4 * 2 ** 30

export function scratch(): string {
  // Whoever started this may have named a folder there, to empty it afterwards.
  if (tmpdir().startsWith(`${MEMORY}/`)) return tmpdir()
  try {
    const { bavail, bsize } = statfsSync(MEMORY)
    if (bavail * bsize > MEMORY_BYTES_MIN) return MEMORY
  } catch {
    // This system has none.
  }
  return tmpdir()
}
