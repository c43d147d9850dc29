// How tests make a machine fail: random decisions, mounts that one process sees, and system calls that fail.

import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { seededRandom } from '../../src/engine/backtest.ts'
import { machine } from '../../src/machine.ts'
import { folderOfProcess, temporaryFolder } from '../support/database.ts'
import type { Program } from '../support/process.ts'

// Random decisions in the tests of a failing machine: SEED=n repeats them.

/** Whether everything is tried, which takes minutes, or a random part of it. */
export const ALL = process.env.FAULTS_ALL !== undefined

const seed = Number(process.env.SEED ?? machine.clock() % 1_000_000)
export const random = seededRandom(seed)

/** Random numbers of one test, whatever runs beside it: from 0 up to, not including, 1. Its output has the seed. */
export function chanceOf(t: TestContext): () => number {
  t.diagnostic(`SEED=${seed}`)
  const ofTest = createHash('sha256').update(`${seed} ${t.fullName}`).digest().readUInt32BE()
  return seededRandom(ofTest)
}

/** So many of a list, each once, from a random place. */
export function sample<T>(of: readonly T[], size: number, random: () => number): T[] {
  const from = Math.floor(random() * of.length)
  return of.map((_, i) => of[(from + i) % of.length] as T).slice(0, size)
}

// Mounts that only one process sees: small disks, and disks that accept no writes.

/** A shell with its own mounts; next come its script, and the script's "$0" and "$@". */
export const MOUNTING: Program = ['unshare', '-m', 'sh', '-c']

/** Whether the test can run; its output names the missing permission. */
export function mayMount(t: TestContext): boolean {
  const [file, ...first] = MOUNTING
  if (spawnSync(file, [...first, 'mount -t tmpfs none /mnt']).status === 0) return true
  t.diagnostic('NOT TESTED: this user may not mount')
  return false
}

// System calls of the executable that fail as a disk makes them fail: with EIO, or because it is full.

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

type FailingCalls = {
  /** The environment that makes a process fail as requested. */
  env: Record<string, string>
  /** From now on, calls fail. */
  begin: (fault: Fault) => void
  /** Ends the failures. Returns whether any call failed. */
  end: () => boolean
}

let compiled: string | undefined

/** Compiles the shim between a process and the C library: once in this process, and removed with it. */
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
