// Puts a copy in place of a database, frozen.

import { closeSync, existsSync, fstatSync, openSync, renameSync, rmSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { noFile, Problem, reasonInWords, usage } from '../../../core/problem.ts'
import { formatInstant, type Instant } from '../../../core/time.ts'
import { copyAll, openPlain, withPlain } from '../../../plain-file.ts'
import { nameAside, sync } from '../../../whole-file.ts'
import {
  frozenAt,
  frozenByRestore,
  type OpenCopy,
  type Restoring,
  refuseMovedCopy,
} from '../../copy-interface.ts'
import type { Replaced } from '../../database.ts'
import { differencesInWords } from '../../health/schema.ts'
import { isPending } from '../../migrations.ts'
import { type AskBoth, readReplaced, type SinceCopy } from '../../replaced.ts'
import { putFrozen, seenFrozen } from '../copy-file.ts'
import { openStore } from '../open.ts'
import { type Database, openFile, openToWrite } from './connection.ts'
import {
  inOneLine,
  isBusy,
  isUnreadable,
  refuseClosedFolder,
  refuseUnreachable,
  refuseUnreadable,
  roomAdvice,
  userName,
} from './errors.ts'
import {
  appendErasures,
  BESIDE,
  filesReadWith,
  handOver,
  identityOf,
  ownerNote,
  readErasures,
  realName,
  refuseNetworkFile,
  removeUnfinished,
} from './files.ts'
import { frozenIn, migrate, migrationStates, schemaDifferences } from './migrate.ts'
import { hasForeignLog, noteLogOwner, refuseForeignBeside } from './wal.ts'
import { assertWhole } from './whole-copy.ts'

type Options = { now: Instant; force: boolean; clock: () => Instant }

/**
 * Puts a copy in place of `file`. The copy is verified first and not touched; what it replaces is kept. At every
 * moment, there is one whole database. The new one gets the owner and the mode of what it replaces. A kill leaves at
 * most a `.partial-` file, which the next restore removes. Throws bad_file, storage_failed, schema_newer, usage for a
 * file with second names, and database_in_use while another process has the database open.
 */
export async function restore(
  restoring: Restoring,
  fileName: string,
  { now, force, clock }: Options,
): Promise<Replaced> {
  const { copy, open, audit } = restoring
  if (open === null) throw noFile(copy)
  refuseNetworkFile(fileName)
  refuseUnreachable(fileName)
  const file = realName(fileName)
  refuseClosedFolder(file)
  if (open.isSame(file)) throw usage(`${copy} is the database itself.`)
  refuseSecondNames(file)
  if (!force) refuseMoved(file)
  const aside = nameAside(file)
  const kept = `${file}.replaced-${formatInstant(now).replaceAll(':', '-')}`
  try {
    const playedIn = open.fetchTo(aside)
    const additions = verify(aside, copy)
    const finish = async (replaced: Database | 'unread' | null): Promise<void> => {
      // Under its temporary name, it needs no locks and no backup.
      await inOneFile(aside, (db) => migrate(db, null, () => now))
      const names = keptNames(replaced, kept)
      const sinceCopy = replaced === null ? null : await sinceCopyOf(aside, names, replaced)
      const store = await openStore(aside, { clock, create: false })
      const detail = { ...audit.detail, ...(playedIn.length > 0 && { played_in: playedIn }) }
      await restoring.mend(store, sinceCopy, { ...audit, detail }).finally(() => store.close())
      appendErasures(file, readErasures(aside))
      const frozen = frozenAt(now, frozenByRestore(restoring, names), null)
      // Before it has its name, so that it can never fire.
      await inOneFile(aside, (db) => putFrozen(db, frozen))
      takeOverRights(aside, file)
      sync(aside)
    }
    const left = await replace(file, { aside, kept, finish })
    sync(dirname(file))
    return { ...left, playedIn, additions }
  } catch (error) {
    if (error instanceof Problem) throw error
    const { code = '' } = error as NodeJS.ErrnoException
    throw new Problem(
      'storage_failed',
      `The restore failed (${reasonInWords(error)}): ${[roomAdvice(code, dirname(file)), 'run it again'].filter(Boolean).join('; ')}. Until then ${file} is either the old database or all of the restored one.`,
    )
  } finally {
    removeUnfinished(aside, `${aside}-old`)
  }
}

type Giving = {
  aside: string
  kept: string
  /** Completes the new database while nobody can write to the one that it replaces, if there is one. */
  finish: (replaced: Database | 'unread' | null) => Promise<void>
}

/** Gives the new database the name. */
async function replace(file: string, giving: Giving): Promise<Pick<Replaced, 'database' | 'log'>> {
  const { aside, kept, finish } = giving
  if (existsSync(file)) return { database: kept, log: await giveWay(file, giving) }
  await finish(null)
  const log = setAside(file, `${kept}.before`)
  sync(dirname(file))
  renameSync(aside, file)
  return { database: null, log }
}

/** Opens the file and the log that completes it. Neither may change during the copy. */
export function openCopy(name: string): OpenCopy {
  refuseUnreadable(name)
  if (!existsSync(name)) throw noFile(name)
  const copy = realName(name)
  refuseForeignBeside(copy)
  const identity = identityOf(copy)
  const beside = filesReadWith(copy)
  const opened: { suffix: string; held: number }[] = []
  const close = () => {
    for (const { held } of opened) closeSync(held)
  }
  try {
    for (const each of [copy, ...beside])
      opened.push({ suffix: each.slice(copy.length), held: openPlain(each) })
  } catch (error) {
    close()
    throw error
  }
  const state = () =>
    opened.map(({ held }) => {
      const { mtimeNs, size } = fstatSync(held, { bigint: true })
      return `${mtimeNs} ${size}`
    })
  return {
    isSame: (file) => identity === identityOf(file),
    fetchTo(aside) {
      const before = state().join()
      for (const { suffix, held } of opened) copyAside(held, aside + suffix)
      if (state().join() !== before)
        throw new Problem('bad_file', `${copy} is being written to: take a copy with \`tranche backup\`.`)
      return beside
    },
    close,
  }
}

/** Opens a database that has no name yet, and leaves all of it in one file. */
async function inOneFile<T>(aside: string, work: (db: Database) => T | Promise<T>): Promise<T> {
  using db = await openToWrite(aside)
  db.pragma('journal_mode = delete')
  return await work(db)
}

/** The data that the copy lacks of the kept database, and of those that a frozen one had itself replaced. */
const sinceCopyOf = (
  aside: string,
  names: readonly string[],
  latest: Database | 'unread',
): Promise<SinceCopy> =>
  inOneFile(aside, async (db) => {
    const [first = '', ...earlier] = names
    const isCurrent = latest !== 'unread' && isOfThisSchema(latest)
    const read = isCurrent ? first : await readableCopy(first, `${aside}-old`)
    const files = [{ name: first, read }, ...earlier.filter(existsSync).map((name) => ({ name, read: name }))]
    return readReplaced(files.map(({ name, read }) => ({ name, ask: askerOf(db, read) })))
  })

const isOfThisSchema = (db: Database): boolean => {
  try {
    return !migrationStates(db).some(isPending)
  } catch {
    return false
  }
}

/** Never the kept file: one that cannot be read, or has an earlier schema, is repaired or migrated in a copy. */
async function readableCopy(kept: string, copy: string): Promise<string> {
  withPlain(kept, (held) => copyAside(held, copy))
  try {
    using db = openFile(copy)
    db.pragma('journal_mode = delete')
    await migrate(db, null, () => 0 as Instant)
  } catch {
    // The readable part is listed.
  }
  return copy
}

/** Reads as far as possible: a damaged page ends one listing, not all of them. */
function askerOf(db: Database, file: string): AskBoth {
  return async (sql) => {
    const rows: Record<string, unknown>[] = []
    try {
      db.prepare('attach database ? as old').run(file)
      for (const row of db.prepare<[], Record<string, unknown>>(sql).iterate()) rows.push(row)
      return { rows, failure: null }
    } catch (error) {
      return { rows, failure: inOneLine((error as Error).message) }
    } finally {
      try {
        db.exec('detach database old')
      } catch {
        // It could not be attached.
      }
    }
  }
}

/** A frozen database may itself have replaced one, and does not know all changes made there. */
function keptNames(replaced: Database | 'unread' | null, kept: string): string[] {
  if (replaced === null) return []
  try {
    return [kept, ...((replaced !== 'unread' && frozenIn(replaced)?.replaced) || [])]
  } catch {
    return [kept]
  }
}

/**
 * Takes the database for itself, copies it and lets the new one take its name, so that there is always one. A link
 * would be quicker than a copy, but a kill would leave one database with two names, and a log for each. One that must
 * not be opened, because the log beside it belongs to another file, is kept with that as they are, under names by which
 * SQLite does not take them for a pair.
 */
async function giveWay(file: string, { aside, kept, finish }: Giving): Promise<string | null> {
  // Opened first and closed last: closing a file gives up all locks of the process on it.
  const held = openPlain(file)
  try {
    using db = hasForeignLog(file) ? null : openFile(file)
    const isWhole = db !== null && takeAlone(db, file)
    keepCopy(held, { file, kept })
    try {
      await finish(db ?? 'unread')
    } catch (error) {
      // Removes the second copy of a database that stays where it is.
      rmSync(kept, { force: true })
      throw error
    }
    return takeName(file, { aside, log: db === null ? `${kept}.before` : isWhole ? null : kept })
  } finally {
    closeSync(held)
  }
}

/**
 * Renames the file, and moves its log aside under its new name, if it gets one. The log is moved last: between the two
 * steps, the note of its owner keeps anybody from taking it for the new file's log, and the old file is never without
 * it. Each step is on disk before the next, so that a power cut leaves no other order.
 */
function takeName(file: string, { aside, log }: { aside: string; log: string | null }): string | null {
  if (log !== null && !hasForeignLog(file)) {
    noteLogOwner(file)
    if (existsSync(ownerNote(file))) sync(ownerNote(file))
  }
  sync(dirname(file))
  renameSync(aside, file)
  if (log === null) return null
  sync(dirname(file))
  return setAside(file, log)
}

/**
 * Leaves write-ahead logging, which checkpoints the log and takes a lock that no other open connection, however idle,
 * allows. False for a file that SQLite can no longer read: it fails before it reaches locks, and a process that still
 * has it open notices when it writes (NameWatch).
 */
function takeAlone(db: Database, file: string): boolean {
  try {
    // A change of the mode alone would not show that the disk failed during the checkpoint.
    db.pragma('wal_checkpoint(truncate)')
    if (db.pragma('journal_mode = delete', { simple: true }) === 'delete') {
      db.exec('begin exclusive')
      // Read again under the lock: in another journal mode, set by a faster process, this lock keeps nobody out.
      if (db.pragma('journal_mode', { simple: true }) === 'delete') return true
    }
  } catch (error) {
    if (isUnreadable(error)) return false
    if (!isBusy(error)) throw error
  }
  throw new Problem('database_in_use', `${file} is open in another process: stop serve and cron first.`)
}

/** Copies an open file under another name, which appears when the copy is complete and on disk. */
function keepCopy(held: number, { file, kept }: { file: string; kept: string }): void {
  const aside = nameAside(file)
  try {
    copyAside(held, aside)
    takeOverRights(aside, file)
    sync(aside)
    renameSync(aside, kept)
  } finally {
    rmSync(aside, { force: true })
  }
}

function copyAside(held: number, aside: string): void {
  const copy = openSync(aside, 'wx', 0o600)
  try {
    copyAll(held, copy)
  } finally {
    closeSync(copy)
  }
}

/** Later writes are at its new place, and two databases would take writes. */
function refuseMoved(file: string): void {
  const frozen = seenFrozen(file)
  if (frozen?.kind !== 'moved') return
  throw new Problem(
    'database_moved',
    `${file} moved to ${frozen.movedTo} on ${formatInstant(frozen.at)}. --force restores anyway; make sure that nothing uses the other one.`,
  )
}

/** Under another name, the replaced database would stay in use, and somebody might still write to it. */
function refuseSecondNames(file: string): void {
  const names = statSync(file, { throwIfNoEntry: false })?.nlink ?? 1
  if (names <= 1) return
  throw usage(
    `${file} has ${names} names (hard links), and a restore would change this one only: remove the others, ` +
      'which `find FOLDER -samefile FILE` shows.',
  )
}

/**
 * Gives a file the owner and the mode of the one it replaces, or of the folder's owner when there is none: the service
 * must be able to open a file that root restores. Throws usage when they cannot be given.
 */
function takeOverRights(aside: string, file: string): void {
  const before = statSync(file, { throwIfNoEntry: false })
  if (!before && process.getuid?.() !== 0) return
  const { uid, gid } = before ?? statSync(dirname(file))
  try {
    handOver(aside, { uid, gid }, before ? before.mode & 0o777 : 0o600)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') throw error
    throw usage(
      `${file} belongs to ${userName(uid) ?? `user ${uid}`}, group ${gid}: run restore as that user, or as root, which keeps the owner.`,
    )
  }
}

/** Moves the files beside a database to its new name. Returns the name of the log; null for none. */
function setAside(file: string, kept: string): string | null {
  for (const suffix of BESIDE) if (existsSync(file + suffix)) renameSync(file + suffix, kept + suffix)
  return existsSync(`${kept}-wal`) ? `${kept}-wal` : null
}

/**
 * Throws bad_file unless the file is a whole tranche database with the schema of its migrations, and schema_newer when
 * this program is too old for it. Returns harmless additions to the schema.
 */
function verify(file: string, name: string): string[] {
  assertWhole(file, name)
  using db = openFile(file)
  try {
    if (migrationStates(db).every(isPending)) throw new Error('it is empty')
    const found = schemaDifferences(db)
    if (found.differs.length > 0) throw new Error(`its schema ${differencesInWords(found)}`)
    refuseMovedCopy(frozenIn(db), name)
    return found.additions
  } catch (error) {
    if (error instanceof Problem && ['schema_newer', 'database_moved'].includes(error.code)) throw error
    throw new Problem('bad_file', `${name} is not a tranche database: ${reasonInWords(error)}`)
  }
}
