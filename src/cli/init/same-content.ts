// Whether two files are alike, told without holding either in memory: an executable has more than 150 MB.

import { closeSync, fstatSync, readSync } from 'node:fs'
import { openNamed } from '../../plain-file.ts'

const PIECE_BYTES = 1 << 20

/** Throws the error of the file system for a file that cannot be read. */
export function haveSameContent(one: string, other: string): boolean {
  const files: number[] = []
  try {
    for (const name of [one, other]) files.push(openNamed(name))
    const [first = -1, second = -1] = files
    const [a, b] = [fstatSync(first), fstatSync(second)]
    if (a.dev === b.dev && a.ino === b.ino) return true
    return a.size === b.size && areAlike(first, second)
  } finally {
    for (const file of files) closeSync(file)
  }
}

function areAlike(one: number, other: number): boolean {
  const [here, there] = [Buffer.allocUnsafe(PIECE_BYTES), Buffer.allocUnsafe(PIECE_BYTES)]
  for (let at = 0; ; at += PIECE_BYTES) {
    const read = readWhole(one, here, at)
    if (readWhole(other, there, at) !== read) return false
    if (!here.subarray(0, read).equals(there.subarray(0, read))) return false
    if (read < PIECE_BYTES) return true
  }
}

/** Reads until the piece is full or the file ends; a single read may bring less. */
function readWhole(file: number, piece: Buffer, at: number): number {
  let read = 0
  while (read < piece.length) {
    const more = readSync(file, piece, read, piece.length - read, at + read)
    if (more === 0) break
    read += more
  }
  return read
}
