// The files a database consists of, and keeping everything else from being written over them.

import { existsSync, realpathSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { Problem } from '../../../core/problem.ts'
import { BESIDE } from './copy.ts'

/** SQLite lays its log beside the file itself, whatever links lead there; and a link is not to be replaced. */
export const oneName = (file: string): string => (existsSync(file) ? realpathSync(file) : file)

export function isSameFile(a: string, b: string): boolean {
  if (!existsSync(a) || !existsSync(b)) return false
  const [one, other] = [statSync(a), statSync(b)]
  return one.ino === other.ino && one.dev === other.dev
}

/** Throws a usage Problem for an output that is the database, its log or one of its locks, forced or not. */
export function refuseDatabaseFile(output: string, database: string): void {
  for (const suffix of ['', '-tick', '-import', '-advance', ...BESIDE]) {
    const own = oneName(database) + suffix
    if (resolve(output) !== resolve(own) && !isSameFile(output, own)) continue
    throw new Problem('usage', `${output} belongs to the database itself: give another name.`)
  }
}
