// Where a database may live: on a disk of this machine.

import { existsSync, realpathSync, statfsSync } from 'node:fs'
import { dirname } from 'node:path'
import { Problem } from '../../../core/problem.ts'

/** File systems whose locks and shared memory do not reach across machines (statfs magic numbers of Linux). */
const NETWORK = new Map([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xff534d42, 'CIFS'],
  [0xfe534d42, 'SMB2'],
  [0x01021997, '9p'],
  [0x5346414f, 'AFS'],
  [0x00c36400, 'Ceph'],
  [0x0bd00bd0, 'Lustre'],
  [0x47504653, 'GPFS'],
  [0x01161970, 'GFS2'],
  [0x7461636f, 'OCFS2'],
  [0x786f4256, 'a VirtualBox shared folder'],
])

/**
 * Throws a usage Problem for a file on a network file system: two machines would write to it at once and lose money.
 */
export function refuseNetworkFile(file: string, typeOf: (folder: string) => number = fileSystemType): void {
  if (file === ':memory:') return
  // Through a link, it is the file at its end that counts.
  const name = NETWORK.get(typeOf(dirname(existsSync(file) ? realpathSync(file) : file)) >>> 0)
  if (!name) return
  throw new Problem(
    'usage',
    `${file} is on a network file system (${name}), where SQLite's locks cannot be relied on: keep it on a local disk.`,
  )
}

function fileSystemType(folder: string): number {
  try {
    return process.platform === 'linux' ? statfsSync(folder).type : 0
  } catch {
    // A folder that is not there gets its own message when the file is opened.
    return 0
  }
}
