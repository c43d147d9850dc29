// System calls of the executable that fail as a disk makes them fail: with EIO, or because it is full.

import { execFileSync } from 'node:child_process'
import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { folderOfProcess, temporaryFolder } from '../support/database.ts'

const { EIO, ENOSPC } = constants.errno
const ERRORS = { EIO, ENOSPC }
export type Fault = {
  call: 'fsync' | 'write' | 'truncate' | 'read'
  /** A part of the path of the files concerned. */
  name: string
  error: keyof typeof ERRORS
  /** So many calls succeed before the first that fails, and so many fail: 0 for all from then on. */
  skip?: number
  times?: number
}

export type FailingCalls = {
  /** The environment that makes a process fail as told. */
  env: Record<string, string>
  /** From now on, calls fail. */
  begin: (fault: Fault) => void
  /** From now on, none do. Whether any did. */
  end: () => boolean
}

let compiled: string | undefined

/** Compiles what sits between a process and the C library: once in this process, and gone with it. */
function shim(): string {
  if (compiled) return compiled
  const [library, source] = [join(folderOfProcess(), 'shim.so'), join(import.meta.dirname, 'shim.c')]
  execFileSync('cc', ['-shared', '-fPIC', '-O1', '-Wall', '-Werror', '-o', library, source, '-ldl'])
  compiled = library
  return library
}

/** System calls that a test makes fail. */
export function failingCalls(t: Pick<TestContext, 'after'>): FailingCalls {
  const [library, control] = [shim(), join(temporaryFolder(t), 'faults')]
  const fired = `${control}.fired`
  return {
    env: { LD_PRELOAD: library, FAULTS: control },
    begin({ call, name, error, skip = 0, times = 0 }) {
      rmSync(fired, { force: true })
      writeFileSync(control, `${call} ${name} ${ERRORS[error]} ${skip} ${times}\n`)
    },
    end() {
      rmSync(control, { force: true })
      return existsSync(fired)
    },
  }
}
