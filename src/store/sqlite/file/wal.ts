// Whether the log beside a database may be read with it: checked before anything opens the two.

import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  readSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { endianness } from 'node:os'
import { Problem } from '../../../core/problem.ts'
import { quoted } from '../../../core/text.ts'
import { openPlain, withPlain } from '../../../plain-file.ts'
import {
  giveToFolderOwner,
  indexFile,
  isMissing,
  ownerNote,
  ownersBeside,
  realName,
  refusePlantedBeside,
  walBytes,
  walFile,
} from './files.ts'
import { canSeeLocks, isReadByAnother, locksOn } from './locks.ts'

/**
 * Throws bad_file for a log that is no plain file or may be somebody else's, that belongs to another file, or that lost
 * commits, and database_gone for one
 * that was removed under a process.
 */
export function refuseDoubtfulLog(database: string): void {
  refusePlantedBeside(database)
  refuseForeignLog(database)
  refuseMissingLog(database)
  refuseDamagedLog(database)
}

// A log that is damaged or gone. When a database is opened after a crash, SQLite reads its log up to the first frame
// whose checksum is wrong, and takes the rest for a write that was cut short. That may be right: then nobody was
// answered. Or commits that were answered come after it, and would silently be lost. The two can be told apart.

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
function refuseDamagedLog(database: string): void {
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
    `${flaw} keep copies of all three files and see "When the log is damaged" in \`tranche docs reference\`. To go on without ` +
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

// A log, or its index (-shm), that was removed under a process that has it open. With the index still shared, SQLite
// would look up pages in a new, empty log at places that only the removed one has, and write behind them. With a new
// index, each process would go by its own, and the one that closes last would undo what the other wrote.

/**
 * Looks for half a second: a process that restarts a log, or removes it as the last to close, changes the two files one
 * after the other.
 */
const LOOKS = 25
const MISSING_LOOKS_MS = 20

/**
 * Throws database_gone when other processes use a log or an index that is not there any more. Only where the system
 * tells who holds a file (Linux).
 */
function refuseMissingLog(database: string): void {
  for (let look = 0; look < LOOKS; look++) {
    if (look > 0) standStill(MISSING_LOOKS_MS)
    if (logFits(database)) return
  }
  throw new Problem(
    'database_gone',
    `${walFile(database)}, or the -shm beside it, was removed or replaced while another process had it open, ` +
      'so nothing is read or stored: see "When the database is gone" in `tranche docs reference` before you stop that process.',
  )
}

function logFits(database: string): boolean {
  const index = indexFile(database)
  const locks = locksOn(index)
  // Reading it here would also close it, and so give up the locks of this process's own connection.
  if (locks.some(({ isOurs }) => isOurs)) return true
  // A process that has the database open holds both, except at the moments of opening and closing.
  if (locks.length === 0) return !isReadByAnother(realName(database))
  const counted = readIndex(database)
  if (counted === null || counted.frames === 0) return true
  const log = firstBytes(walFile(database), LOG_HEADER_BYTES)
  const hasSalt = log !== null && logHeader(log).salt.equals(counted.salt)
  const frameBytes = FRAME_HEADER_BYTES + counted.pageSize
  return hasSalt && walBytes(database) >= LOG_HEADER_BYTES + counted.frames * frameBytes
}

// Which file a log belongs to. SQLite takes any `-wal` that lies beside a database for its own: left behind by a file
// that was replaced, it would be mixed into the new one, and both would be damaged.

/**
 * Whether the log beside the database was last written for another file of that name. A log that is not empty, beside a
 * file that is empty or gone, always was: SQLite would remove it.
 */
export function hasForeignLog(database: string): boolean {
  const bytes = walBytes(database)
  if (bytes > LOG_HEADER_BYTES && isMissing(database)) return true
  const noted = read(ownerNote(database))
  const [file, log] = identities(database)
  return noted?.log === log && noted?.file !== file && bytes > 0
}

/** Throws bad_file before SQLite reads a log that belongs to another file. */
function refuseForeignLog(database: string): void {
  if (!hasForeignLog(database)) return
  throw new Problem(
    'bad_file',
    `${database} was replaced, emptied or removed, and the log beside it (${walFile(database)}) belongs to the previous file. ` +
      'Opening them together would damage both. See "When the database is gone" in `tranche docs reference`. If the two do ' +
      `belong together, remove ${ownerNote(database)}.`,
  )
}

/** Notes that the log beside a database that was just opened is its own. */
export function noteLogOwner(database: string): void {
  const [file, log] = identities(database)
  if (file === null || log === null) return
  const note = ownerNote(database)
  const noted = read(note)
  if (noted?.file === file && noted.log === log) return
  try {
    withNote(note, constants.O_RDWR | constants.O_CREAT, (descriptor) => {
      ftruncateSync(descriptor)
      writeSync(descriptor, `${file}\n${log}\n`)
    })
    giveToFolderOwner(note)
  } catch {
    // There may be no room, for example. Without the note, the next process has one check fewer, but that is no reason
    // to refuse this one.
  }
}

/** Removes the note once there is no log: the last process to close a database leaves none. */
export function forgetLogOwner(database: string): void {
  try {
    if (identityOf(walFile(database)) === null) rmSync(ownerNote(database), { force: true })
  } catch {
    // The folder may be gone, or no longer ours.
  }
}

function read(note: string): { file: string; log: string } | null {
  try {
    return withNote(note, constants.O_RDONLY, (descriptor) => {
      const text = Buffer.alloc(NOTE_BYTES_MAX)
      const [file = '', log = ''] = text.toString('utf8', 0, readSync(descriptor, text)).split('\n')
      return { file, log }
    })
  } catch {
    return null
  }
}

const NOTE_BYTES_MAX = 256

/** Opens the note, which must be our own: root works in the folders of others, too. */
const withNote = <T>(note: string, flags: number, work: (descriptor: number) => T): T =>
  withPlain(note, { flags, ownedBy: () => ownersBeside(note) }, work)

const identities = (database: string) => [identityOf(database), identityOf(walFile(database))] as const

/**
 * What stays the same for as long as a file exists, even when the machine restarts, which may change the device number.
 * An inode alone is soon given to another file. Null for a file that is not there.
 */
function identityOf(name: string): string | null {
  const found = statSync(name, { bigint: true, throwIfNoEntry: false })
  return found ? `${found.ino} ${found.birthtimeNs}` : null
}

// What the log of a database and its index say about themselves. The layouts are described in
// https://www.sqlite.org/walformat.html.

const LOG_HEADER_BYTES = 32
const FRAME_HEADER_BYTES = 24
const MAGIC_LITTLE = 0x377f0682
const INDEX_HEADER_BYTES = 48
/** Up to where the index counts the frames that are in the database by now. */
const INDEX_BYTES = 100

/** SQLite's checksum: of a header, or of all frames up to one. */
type Sum = readonly [number, number]

type LogHeader = {
  pageSize: number
  /** Drawn at random whenever the log is restarted; every frame repeats it. */
  salt: Buffer
  sum: Sum
  /** Whether it is whole, and written by a machine of this byte order. */
  isSound: boolean
}

function logHeader(bytes: Buffer): LogHeader {
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

const isPageSize = (bytes: number): boolean => bytes >= 512 && bytes <= 65_536 && (bytes & (bytes - 1)) === 0

type LogIndex = {
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
function readIndex(database: string): LogIndex | null {
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
function firstBytes(file: string, bytes: number): Buffer | null {
  try {
    const buffer = Buffer.alloc(bytes)
    return withPlain(file, {}, (descriptor) => readSync(descriptor, buffer)) === bytes ? buffer : null
  } catch {
    return null
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

// A pause that blocks this thread: for a command that has not begun yet, never for a service.

const standStill = (ms: number): void => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
