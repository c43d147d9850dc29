// The file beside a database in which erasures are remembered (../../erasures.ts).

import { constants, existsSync, fstatSync, fsyncSync, readFileSync, readSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import { withPlain } from '../../../plain-file.ts'
import { sync } from '../../../whole-file.ts'
import { type Erasure, erasureLine, erasuresIn, unreadErasuresIn } from '../../erasures.ts'
import { erasuresFile, giveToFolderOwner, ownersBeside } from './files.ts'

/** Resolves when they are on the disk. */
export function appendErasures(database: string, erasures: readonly Erasure[]): void {
  if (database === ':memory:' || erasures.length === 0) return
  const file = erasuresFile(database)
  const isNew = !existsSync(file)
  const flags = constants.O_RDWR | constants.O_APPEND | constants.O_CREAT
  withPlain(file, { flags, ownedBy: () => ownersBeside(file) }, (descriptor) => {
    const lines = erasures.map(erasureLine).join('')
    writeSync(descriptor, endsInLine(descriptor) ? lines : `\n${lines}`)
    fsyncSync(descriptor)
  })
  if (!isNew) return
  giveToFolderOwner(file)
  sync(dirname(file))
}

/** False for a last line that a crash has cut off. */
function endsInLine(descriptor: number): boolean {
  const { size } = fstatSync(descriptor)
  if (size === 0) return true
  const last = Buffer.alloc(1)
  readSync(descriptor, last, 0, 1, size - 1)
  return last.toString() === '\n'
}

export const readErasures = (database: string): Erasure[] => erasuresIn(textBeside(database))

export const countUnreadErasures = (database: string): number => unreadErasuresIn(textBeside(database))

function textBeside(database: string): string {
  const file = erasuresFile(database)
  if (!existsSync(file)) return ''
  return withPlain(file, { ownedBy: () => ownersBeside(file) }, (descriptor) =>
    readFileSync(descriptor, 'utf8'),
  )
}
