// What the log of a database and its index say about themselves. The layouts are described in
// https://www.sqlite.org/walformat.html.

import { readSync } from 'node:fs'
import { endianness } from 'node:os'
import { withPlain } from '../../../plain-file.ts'
import { indexFile } from './own-files.ts'

export const LOG_HEADER_BYTES = 32
export const FRAME_HEADER_BYTES = 24
const MAGIC_LITTLE = 0x377f0682
const INDEX_HEADER_BYTES = 48
/** Up to where the index counts the frames that are in the database by now. */
const INDEX_BYTES = 100

/** SQLite's checksum: of a header, or of all frames up to one. */
export type Sum = readonly [number, number]

export type LogHeader = {
  pageSize: number
  /** Drawn at random whenever the log is restarted; every frame repeats it. */
  salt: Buffer
  sum: Sum
  /** Whether it is whole, and written by a machine of this byte order. */
  isSound: boolean
}

export function logHeader(bytes: Buffer): LogHeader {
  const pageSize = bytes.readUInt32BE(8)
  const words = new Int32Array(Uint8Array.from(bytes.subarray(0, 24)).buffer)
  const sum = sumOf(words, 0, 6, [0, 0])
  const isOwn = bytes.readUInt32BE(0) === MAGIC_LITTLE && endianness() === 'LE'
  return {
    pageSize,
    salt: bytes.subarray(16, 24),
    sum,
    isSound: isOwn && isPageSize(pageSize) && isEqual(sum, storedSum(bytes, 24)),
  }
}

export const isPageSize = (bytes: number): boolean =>
  bytes >= 512 && bytes <= 65_536 && (bytes & (bytes - 1)) === 0

export type LogIndex = {
  pageSize: number
  salt: Buffer
  /** How many frames are committed: a commit is counted when it is on disk. */
  frames: number
  /** How many of them are already in the database. */
  backfilled: number
  /** Whether nobody was writing it. */
  isWhole: boolean
}

/**
 * What the index (`-shm`) beside a database says; null when there is none, or nothing in it. Not for a process that has
 * the database open: closing the file again would give up its locks.
 */
export function readIndex(database: string): LogIndex | null {
  const bytes = firstBytes(indexFile(database), INDEX_BYTES)
  if (bytes === null || bytes[12] === 0 || endianness() !== 'LE') return null
  const pageSize = bytes.readUInt16LE(14)
  return {
    pageSize: pageSize === 1 ? 65_536 : pageSize,
    salt: bytes.subarray(32, 40),
    frames: bytes.readUInt32LE(16),
    backfilled: bytes.readUInt32LE(96),
    isWhole: bytes.subarray(0, INDEX_HEADER_BYTES).equals(bytes.subarray(INDEX_HEADER_BYTES, 96)),
  }
}

/** Null for a file that is not there, is shorter, or may not be read. */
export function firstBytes(file: string, bytes: number): Buffer | null {
  try {
    const buffer = Buffer.alloc(bytes)
    return withPlain(file, {}, (descriptor) => readSync(descriptor, buffer)) === bytes ? buffer : null
  } catch {
    return null
  }
}

/** SQLite's checksum of some words, going on from another. */
export function sumOf(words: Int32Array, from: number, to: number, [first, second]: Sum): Sum {
  let [a, b] = [first, second]
  for (let at = from; at < to; at += 2) {
    a = (a + (words[at] ?? 0) + b) | 0
    b = (b + (words[at + 1] ?? 0) + a) | 0
  }
  return [a, b]
}

export const storedSum = (bytes: Buffer, at: number): Sum => [
  bytes.readInt32BE(at),
  bytes.readInt32BE(at + 4),
]
export const isEqual = (one: Sum, other: Sum): boolean => one[0] === other[0] && one[1] === other[1]
