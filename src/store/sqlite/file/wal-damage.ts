// A log that is damaged or gone. When a database is opened after a crash, SQLite reads its log up to the first frame
// whose checksum is wrong, and takes the rest for a write that was cut short. That may be right: then nobody was
// answered. Or commits that were answered come after it, and would silently be lost. The two can be told apart.

import { closeSync, fstatSync, readSync } from 'node:fs'
import { Problem } from '../../../core/problem.ts'
import { quoted } from '../../../core/shell-word.ts'
import { openPlain } from '../../../plain-file.ts'
import { indexFile, realName, walBytes, walFile } from './own-files.ts'
import { canSeeLocks, locksOn } from './process-lock.ts'
import { standStill } from './stand-still.ts'
import {
  FRAME_HEADER_BYTES,
  isEqual,
  isPageSize,
  LOG_HEADER_BYTES,
  type LogIndex,
  logHeader,
  readIndex,
  type Sum,
  storedSum,
  sumOf,
} from './wal-format.ts'

const BETWEEN_LOOKS_MS = 50
/** The smallest that a disk writes whole. */
const BLOCK_BYTES = 512
/** What SQLite takes unless it is told otherwise, and nobody does. */
const PAGE_BYTES = 4_096

/** `gone`: there is nothing of it. `cut`: it ends too early. `damaged`: other bytes than were written. */
type Damage = {
  kind: 'gone' | 'cut' | 'damaged'
  /** Up to the end of the last commit before the damage. */
  soundBytes: number
}

/**
 * Throws bad_file for a log that nobody has open and that has lost commits which were answered. A write that a crash
 * cut short does not count. See docs/decisions/file.md#a-damaged-log.
 */
export function refuseDamagedLog(database: string): void {
  const damage = damagedLog(database)
  if (!damage) return
  const [wal, index] = [walFile(database), indexFile(database)]
  const { kind, soundBytes } = damage
  const flaw = {
    gone: `${wal} is gone or empty, and commits that were answered were in it:`,
    cut:
      `${wal} ends before commits that were answered. If these files are a copy that was made while the database was ` +
      'in use, make one with `tranche backup` instead. Else',
    damaged: `${wal} is damaged after ${soundBytes} bytes, and commits that were answered come after that:`,
  }[kind]
  const cut = soundBytes > LOG_HEADER_BYTES ? `truncate -s ${soundBytes} ${quoted(wal)} && ` : ''
  const removed = (cut ? [index] : [wal, index]).map(quoted).join(' ')
  throw new Problem(
    'bad_file',
    `${flaw} keep copies of all three files and see "When the log is damaged" in \`tranche docs operations\`. To go on without ` +
      `those commits, run \`${cut}rm -f ${removed}\`.`,
  )
}

/** What is wrong with the log of a database that nobody has open, if it has lost commits which were answered. */
export function damagedLog(database: string): Damage | null {
  if (!canSeeLocks() || isOpen(database)) return null
  const damage = look(database)
  if (!damage) return null
  // Somebody whose locks cannot be seen from here, for example in another container, may have it open and be writing.
  standStill(BETWEEN_LOOKS_MS)
  const again = look(database)
  const isSame = again?.kind === damage.kind && again.soundBytes === damage.soundBytes
  return isSame && !isOpen(database) ? damage : null
}

const isOpen = (database: string): boolean =>
  [realName(database), indexFile(database)].some((file) => locksOn(file).length > 0)

function look(database: string): Damage | null {
  const index = readIndex(database)
  const isEmpty = walBytes(database) < LOG_HEADER_BYTES
  if (isEmpty) return answeredIn(index) > 0 ? { kind: 'gone', soundBytes: 0 } : null
  let descriptor: number
  try {
    descriptor = openPlain(walFile(database))
  } catch {
    // SQLite has its own words for a file that cannot be read.
    return null
  }
  try {
    return walk(descriptor, index)
  } finally {
    closeSync(descriptor)
  }
}

/** How many frames were committed and are not in the database, as the index says. */
const answeredIn = (index: LogIndex | null): number =>
  index?.isWhole && index.frames > index.backfilled ? index.frames : 0

/** Walks along the frames: each has a checksum of itself and everything before it. */
function walk(descriptor: number, index: LogIndex | null): Damage | null {
  const headerBytes = Buffer.alloc(LOG_HEADER_BYTES)
  readSync(descriptor, headerBytes, 0, LOG_HEADER_BYTES, 0)
  const header = logHeader(headerBytes)
  const pageSize = isPageSize(header.pageSize) ? header.pageSize : (index?.pageSize ?? PAGE_BYTES)
  const frameBytes = FRAME_HEADER_BYTES + pageSize
  const frames = Math.floor((fstatSync(descriptor).size - LOG_HEADER_BYTES) / frameBytes)
  const frame = Buffer.alloc(frameBytes)
  const words = new Int32Array(frame.buffer, frame.byteOffset, frameBytes / 4)
  const salt = Buffer.from(header.salt)
  // SQLite ignores a log whose header is wrong.
  let { isSound, sum: before }: { isSound: boolean; sum: Sum } = header
  let sound = 0
  let soundCommit = 0
  let wasCommit = false
  for (let n = 1; n <= frames; n++) {
    const at = LOG_HEADER_BYTES + (n - 1) * frameBytes
    readSync(descriptor, frame, 0, frameBytes, at)
    // The first frame repeats what the header should say.
    if (n === 1 && !isSound) frame.copy(salt, 0, 8, 16)
    const isOfThisLog = frame.subarray(8, 16).equals(salt)
    const stored = storedSum(frame, 16)
    const follows = isOfThisLog && isEqual(sumOf(words, 6, words.length, sumOf(words, 0, 2, before)), stored)
    // After the damage, a frame that follows a commit: its writer was told that the commit is on disk.
    if (!isSound && follows && wasCommit) return { kind: 'damaged', soundBytes: end(soundCommit) }
    isSound &&= follows
    // In a damaged frame, the field that marks it as a commit may be left over from an older log, unless it lies in the
    // same disk block as the field that shows that the frame belongs to this log.
    const isOneBlock = Math.floor((at + 4) / BLOCK_BYTES) === Math.floor((at + 23) / BLOCK_BYTES)
    wasCommit = isOfThisLog && frame.readUInt32BE(4) !== 0 && (follows || isOneBlock)
    if (isSound) sound = n
    if (isSound && wasCommit) soundCommit = n
    before = stored
  }
  // After a power cut, the index may belong to an older log; this cannot be told if the head of this log is missing.
  const isOfIndex = index?.salt.equals(salt) || !header.isSound
  const answered = isOfIndex ? answeredIn(index) : 0
  if (sound >= answered) return null
  return { kind: sound === frames ? 'cut' : 'damaged', soundBytes: end(soundCommit) }

  function end(commit: number): number {
    return commit === 0 ? 0 : LOG_HEADER_BYTES + commit * frameBytes
  }
}
