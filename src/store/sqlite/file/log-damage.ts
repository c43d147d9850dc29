// A log that is damaged in the middle. Whoever opens a database after a crash reads its log up to the first frame whose
// checksum is wrong, and SQLite takes the rest for a write that was cut short. It may be: then nobody was answered. Or
// commits that were answered come after it, and would be gone without a word. The two can be told apart.

import { closeSync, fstatSync, openSync, readFileSync, readSync } from 'node:fs'
import { endianness } from 'node:os'
import { Problem } from '../../../core/problem.ts'
import { quoted } from '../../../core/quote.ts'
import { realName, walBytes, walFile } from './own-files.ts'
import { canSeeLocks, locksOn } from './process-lock.ts'

// The layouts are those of https://www.sqlite.org/walformat.html.
const LOG_HEADER_BYTES = 32
const FRAME_HEADER_BYTES = 24
const MAGIC_LITTLE = 0x377f0682
const BETWEEN_LOOKS_MS = 50
/** The smallest that a disk writes whole. */
const BLOCK_BYTES = 512
const INDEX = { frames: 16, salt: 32, backfilled: 96, bytes: 100 }

/**
 * Throws bad_file for a log that nobody has open and that has lost commits which were answered. What was cut short by a
 * crash is none of that. See docs/decisions/0046-a-damaged-log.md.
 */
export function refuseDamagedLog(database: string): void {
  const log = damagedLog(database)
  if (!log) return
  const [wal, index] = [walFile(database), `${realName(database)}-shm`]
  const flaw = log.isCut
    ? `${wal} ends before commits that were answered. If these files are a copy that was made while the database was in use, ` +
      'make one with `tranche backup` instead. Else'
    : `${wal} is damaged after ${log.soundBytes} bytes, and commits that were answered come after that:`
  throw new Problem(
    'bad_file',
    `${flaw} keep copies of all three ` +
      `files and see "When the log is damaged" in docs/operations.md. To go on without those commits, run ` +
      `\`truncate -s ${log.soundBytes} ${quoted(wal)} && rm -f ${quoted(index)}\`.`,
  )
}

/** The log of a database that nobody has open, if it has lost commits which were answered. */
export function damagedLog(database: string): Pick<Log, 'soundBytes' | 'isCut'> | null {
  if (!canSeeLocks() || walBytes(database) <= LOG_HEADER_BYTES || isOpen(database)) return null
  const log = readLog(database)
  if (!log?.isDamaged) return null
  // Somebody may have it open whose locks are not seen from here, in another container say, and be writing.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, BETWEEN_LOOKS_MS)
  const again = readLog(database)
  const isSame = again?.isDamaged && again.soundBytes === log.soundBytes && again.salt === log.salt
  return isSame && !isOpen(database) ? log : null
}

const isOpen = (database: string): boolean =>
  [realName(database), `${realName(database)}-shm`].some((file) => locksOn(file).length > 0)

type Sum = readonly [number, number]
type Log = {
  isDamaged: boolean
  /** All of it that is there is sound: it is only too short. */
  isCut: boolean
  /** Up to the end of the last commit before the damage. */
  soundBytes: number
  salt: string
}

/** Null for a log that cannot be read, or is not of this machine: SQLite has its own words for those. */
function readLog(database: string): Log | null {
  let descriptor: number
  try {
    descriptor = openSync(walFile(database), 'r')
  } catch {
    return null
  }
  try {
    const header = Buffer.alloc(LOG_HEADER_BYTES)
    readSync(descriptor, header, 0, LOG_HEADER_BYTES, 0)
    const pageSize = header.readUInt32BE(8)
    const isOwn = header.readUInt32BE(0) === MAGIC_LITTLE && endianness() === 'LE'
    if (!isOwn || pageSize < 512 || pageSize > 65_536 || pageSize % 8 !== 0) return null
    const frames = Math.floor(
      (fstatSync(descriptor).size - LOG_HEADER_BYTES) / (FRAME_HEADER_BYTES + pageSize),
    )
    const found = walk({ descriptor, header, pageSize, frames, known: committedFrames(database, header) })
    return { ...found, salt: header.toString('hex', 16, 24) }
  } finally {
    closeSync(descriptor)
  }
}

type Walk = { descriptor: number; header: Buffer; pageSize: number; frames: number; known: number }

/** Goes along the frames: each has the checksum of everything before it and of itself. */
function walk({ descriptor, header, pageSize, frames, known }: Walk): Omit<Log, 'salt'> {
  const frameBytes = FRAME_HEADER_BYTES + pageSize
  const frame = Buffer.alloc(frameBytes)
  const words = new Int32Array(frame.buffer, frame.byteOffset, frameBytes / 4)
  const salt = header.subarray(16, 24)
  // SQLite takes nothing of a log whose header is wrong.
  const headerSum = sumOf(new Int32Array(Uint8Array.from(header.subarray(0, 24)).buffer), 0, 6, [0, 0])
  let isSound = isEqual(headerSum, storedSum(header, 24))
  let before: Sum = headerSum
  let sound = 0
  let soundCommit = 0
  let wasCommit = false
  for (let n = 1; n <= frames; n++) {
    readSync(descriptor, frame, 0, frameBytes, LOG_HEADER_BYTES + (n - 1) * frameBytes)
    const isOfThisLog = frame.subarray(8, 16).equals(salt)
    const stored = storedSum(frame, 16)
    const follows = isOfThisLog && isEqual(sumOf(words, 6, words.length, sumOf(words, 0, 2, before)), stored)
    // Behind the damage, a frame that follows a commit: whoever wrote it was told that the commit is on disk.
    if (!isSound && follows && wasCommit)
      return { isDamaged: true, isCut: false, soundBytes: end(soundCommit) }
    isSound &&= follows
    // In a frame that is not sound, what says that it is a commit may be left of an older log, unless it lies in the same
    // block of the disk as what says that it is of this one.
    const at = LOG_HEADER_BYTES + (n - 1) * frameBytes
    const isOneBlock = Math.floor((at + 4) / BLOCK_BYTES) === Math.floor((at + 23) / BLOCK_BYTES)
    wasCommit = isOfThisLog && frame.readUInt32BE(4) !== 0 && (follows || isOneBlock)
    if (isSound) sound = n
    if (isSound && wasCommit) soundCommit = n
    before = stored
  }
  return { isDamaged: sound < known, isCut: sound === frames, soundBytes: end(soundCommit) }

  function end(frame: number): number {
    return LOG_HEADER_BYTES + frame * frameBytes
  }
}

/**
 * How many frames were committed, as the index of the log says: it is told of a commit when that is on disk. 0 when it
 * is of another log, or all of it is in the database by now.
 */
function committedFrames(database: string, logHeader: Buffer): number {
  try {
    const index = readFileSync(`${realName(database)}-shm`)
    if (index.length < INDEX.bytes || !index.subarray(0, 48).equals(index.subarray(48, 96))) return 0
    if (!index.subarray(INDEX.salt, INDEX.salt + 8).equals(logHeader.subarray(16, 24))) return 0
    const frames = index.readUInt32LE(INDEX.frames)
    return frames > index.readUInt32LE(INDEX.backfilled) ? frames : 0
  } catch {
    return 0
  }
}

/** SQLite's checksum of some words, going on from another. */
function sumOf(words: Int32Array, from: number, to: number, [first, second]: Sum): Sum {
  let [a, b] = [first, second]
  for (let at = from; at < to; at += 2) {
    a = (a + (words[at] ?? 0) + b) | 0
    b = (b + (words[at + 1] ?? 0) + a) | 0
  }
  return [a, b]
}

const storedSum = (bytes: Buffer, at: number): Sum => [bytes.readInt32BE(at), bytes.readInt32BE(at + 4)]
const isEqual = (one: Sum, other: Sum): boolean => one[0] === other[0] && one[1] === other[1]
