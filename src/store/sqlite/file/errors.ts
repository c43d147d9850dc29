// Why a command cannot use its database, in one sentence each: the path, its owner, and what to do.

import { accessSync, closeSync, constants, openSync, readFileSync, statSync } from 'node:fs'
import { devNull } from 'node:os'
import { dirname, resolve } from 'node:path'
import SQLite from 'better-sqlite3'
import { Problem } from '../../../core/problem.ts'
import { quoted } from '../../../core/text.ts'
import { refuseStrange } from '../../../plain-file.ts'
import { INSTALLED } from '../../address.ts'
import { freeOn, realName } from './files.ts'

/** Throws bad_file for a name that cannot be a database: a folder, a pipe, or a path through a closed folder. */
export function refuseUnreachable(file: string): void {
  if (isReachableFolder(file))
    throw new Problem(
      'bad_file',
      `${file} is a folder: --db takes the file in it, such as ${file}/tranche.db.`,
    )
  refuseStrange(realName(file))
}

/**
 * The problem of a name without a file. It gives the full path, because a command may run in another folder than its
 * caller thinks. Where a service is installed, its database is most likely meant, and starting another would mislead.
 */
export function notThere(file: string): Problem {
  const path = resolve(file)
  const isElsewhere = dirname(path) !== INSTALLED.folder && isInstalled()
  const command = 'sudo tranche status'
  const begin = 'begin one there with `partner create SLUG --name NAME`'
  // A caller who has set it has chosen, perhaps by loading these very settings: the hint would lead back here.
  const isInVariable = path === resolve(process.env.TRANCHE_DB ?? '')
  const settings = isElsewhere ? `; the service installed here has its settings in ${INSTALLED.settings}` : ''
  const hint = isInVariable
    ? `TRANCHE_DB names it; put the right one there, or ${begin}${settings}`
    : isElsewhere
      ? `the service installed here has its settings in ${INSTALLED.settings}; for its database run \`${command}\`, or the command that you need in place of status`
      : `name the right one with --db, or ${begin}`
  return new Problem('database_not_found', `There is no database at ${path}: ${hint}.`)
}

/** If its folder is closed to this user, it exists. */
function isInstalled(): boolean {
  try {
    return statSync(INSTALLED.settings).isFile()
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EACCES'
  }
}

/** Throws bad_file for a copy that cannot be read: a folder, a path through a closed folder, somebody else's file. */
export function refuseUnreadable(copy: string): void {
  if (isReachableFolder(copy)) throw new Problem('bad_file', `${copy} is a folder: name the copy in it.`)
  refuseStrange(realName(copy))
  if (!isDenied(copy, constants.R_OK)) return
  throw new Problem(
    'bad_file',
    `${copy} cannot be read: it belongs to ${ownerOf(copy)}; ${runAs(copy)}${orAsRoot(copy)}.`,
  )
}

/** Throws bad_file when no file can be created beside `file`: no folder, or one in which this user may not write. */
export function refuseClosedFolder(file: string): void {
  const folder = dirname(resolve(file))
  if (!isReachableFolder(folder))
    throw new Problem('bad_file', `There is no folder ${folder}: make it, or name another file.`)
  if (!isDenied(folder, constants.W_OK | constants.X_OK)) return
  throw new Problem(
    'bad_file',
    `${file} cannot be written: the folder ${folder} belongs to ${ownerOf(folder)}, and this user has no permission to write in it; name another file, or ${runAs(folder)}${orAsRoot(folder)}.`,
  )
}

function isReachableFolder(name: string): boolean {
  try {
    return statSync(name).isDirectory()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EACCES') return false
    const closed = closedFolder(name)
    throw new Problem(
      'bad_file',
      `${name} cannot be reached: the folder ${closed} belongs to ${ownerOf(closed)} and is closed to this user; ${runAs(closed)}.`,
    )
  }
}

/** Whether the file exists, but this user lacks permission. */
export function isDenied(name: string, right: number): boolean {
  try {
    accessSync(name, right)
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EACCES'
  }
}

/** The outermost folder on the way to the file that this user may not enter. */
function closedFolder(file: string): string {
  const folders: string[] = []
  for (let at = dirname(resolve(file)); at !== dirname(at); at = dirname(at)) folders.unshift(at)
  return folders.find((folder) => isDenied(folder, constants.X_OK)) ?? dirname(file)
}

function ownerOf(name: string): string {
  try {
    const { uid, mode } = statSync(name)
    return `${userName(uid) ?? `user ${uid}`} (mode ${(mode & 0o777).toString(8)})`
  } catch {
    return 'another user'
  }
}

/** The command by which root gives a file to the user of this process. */
export function giveBack(file: string): string[] {
  const uid = process.geteuid?.() ?? 0
  return ['chown', `${userName(uid) ?? uid}:`, file]
}

/** The advice about a file or folder that is closed to this user. */
function runAs(name: string): string {
  if (INSTALLED.became !== null)
    return `give the user ${INSTALLED.became} permission to read it: commands work on the database of the service as that user`
  const owner = ownerId(name)
  if (owner === null) return 'run the command as that user'
  if (owner === process.geteuid?.())
    return `as you own it, run \`chmod u+rwX ${quoted(name)}${statSync(name).isDirectory() ? '' : '*'}\``
  // The variable that names the database would be lost on the way.
  const inVariable = process.env.TRANCHE_DB && resolve(process.env.TRANCHE_DB)
  const isForgotten = inVariable && `${inVariable}/`.startsWith(`${resolve(name)}/`)
  const named = isForgotten ? ` and \`--db ${quoted(inVariable)}\` after it, for sudo drops TRANCHE_DB` : ''
  if (owner === 0) return `run the command as root, with \`sudo\` before it${named}`
  return `run the command as that user, with \`sudo -u ${userName(owner) ?? `'#${owner}'`}\` before it${named}`
}

function orAsRoot(name: string): string {
  const owner = ownerId(name)
  return owner === 0 || owner === process.geteuid?.() || INSTALLED.became !== null ? '' : ', or as root'
}

function ownerId(name: string): number | null {
  try {
    return statSync(name).uid
  } catch {
    return null
  }
}

/** The system's name for a user; null for one that is not in its list. */
export function userName(uid: number): string | null {
  try {
    const users = readFileSync('/etc/passwd', 'utf8').split('\n')
    return users.map((line) => line.split(':')).find((user) => user[2] === String(uid))?.[0] ?? null
  } catch {
    return null
  }
}

/** An error of SQLite about the file as a whole, as database_damaged or storage_failed; any other unchanged. */
export function explained(error: unknown, file: string): unknown {
  if ((error as { code?: unknown }).code === 'EMFILE') return new Problem('storage_failed', TOO_MANY_FILES)
  if (!(error instanceof SQLite.SqliteError)) return error
  const [kind = ''] = /^SQLITE_[A-Z]+/.exec(error.code) ?? []
  const folder = dirname(resolve(file))
  if (['SQLITE_CANTOPEN', 'SQLITE_IOERR'].includes(kind) && !canOpenMore())
    return new Problem('storage_failed', TOO_MANY_FILES)
  if (kind === 'SQLITE_CORRUPT')
    return new Problem(
      'database_damaged',
      `${file} is damaged, or its disk could not read it: keep it, and see "When the database file is damaged" in \`tranche docs reference\`.`,
    )
  const sentence = {
    SQLITE_NOTADB: `${file} is not a database, or its beginning is damaged: name the right file with --db, or see "When the database file is damaged" in \`tranche docs reference\`.`,
    SQLITE_FULL: unusable(file, folder),
    SQLITE_IOERR: roomAdvice(error.code, folder) ? unusable(file, folder) : failed(file),
    SQLITE_READONLY: unwritable(file, folder),
    SQLITE_CANTOPEN: unwritable(file, folder),
  }[kind]
  return sentence === undefined ? error : new Problem('storage_failed', sentence)
}

/** In a folder of ours, another user's file was left there by one of root's commands, or put there. */
const isOursGone = (file: string, folder: string): boolean =>
  ownerId(folder) === process.geteuid?.() && ownerId(file) !== ownerId(folder)

/** Whether there are descriptors left for a database: without one, SQLite only says that it cannot open. */
function canOpenMore(): boolean {
  const opened: number[] = []
  try {
    for (let n = 0; n < DATABASE_DESCRIPTORS; n++) opened.push(openSync(devNull, 'r'))
    return true
  } catch {
    return false
  } finally {
    for (const descriptor of opened) closeSync(descriptor)
  }
}

/** The file, its log, the index of the log, and the folder while it is synced. */
const DATABASE_DESCRIPTORS = 4

const TOO_MANY_FILES =
  'This process may open no more files: raise the limit (`ulimit -n`, or LimitNOFILE of systemd), and run the command again.'

/** Advice about an error of a disk that is or may be full: SQLite reports some of those as errors of the disk. */
export function roomAdvice(code: string, folder: string): string | null {
  if (['ENOSPC', 'EDQUOT', 'EFBIG', 'SQLITE_FULL'].includes(code))
    return `make room in ${folder}${freeOn(folder)}`
  if (/^SQLITE_IOERR(_WRITE|_TRUNCATE|_SHM\w+|_GETTEMPPATH)?$/.test(code))
    return `if the disk of ${folder} is full${freeOn(folder)}, make room there`
  return null
}

const failed = (file: string): string =>
  `The disk of ${file} has failed, so the work in progress is not recorded: see the log of the system, and ` +
  'run the command again; if it fails again, copy the file to another disk.'

const unusable = (file: string, folder: string): string =>
  `The disk of ${file} is full or has failed${freeOn(folder)}, so the work in progress is not recorded: ` +
  `make room in ${folder}, but never delete a -wal or -shm file.`

const unwritable = (file: string, folder: string): string =>
  `${file} cannot be written, and even a reader has to write to its log: ${folder} belongs to ${ownerOf(folder)}, ` +
  `the file to ${ownerOf(file)}; ${isOursGone(file, folder) ? `as root, restore its owner: \`${giveBack(file).join(' ')}\`` : runAs(file)}, ` +
  'or on a read-only disk copy the file and its -wal to a folder of yours and name the copy with --db.'

// Kinds of SQLite errors: the file is locked, damaged, or not a database.

/** The error that SQLite throws elsewhere, for where it only reports it in a row. */
export const busy = (): Error => new SQLite.SqliteError('database is locked', 'SQLITE_BUSY')

const isOf = (error: unknown, kind: RegExp): boolean =>
  error instanceof SQLite.SqliteError && kind.test(error.code)

export const isBusy = (error: unknown): boolean => isOf(error, /^SQLITE_(BUSY|LOCKED$)/)
/** Whether the file itself is damaged, rather than its content. */
export const isCorrupt = (error: unknown): boolean => isOf(error, /^SQLITE_CORRUPT/)
/** Whether the file is not an SQLite database, or has lost its beginning. */
export const isNoDatabase = (error: unknown): boolean => isOf(error, /^SQLITE_NOTADB$/)
/** Whether SQLite cannot read the file at all, or a part that it needed. */
export const isUnreadable = (error: unknown): boolean => isCorrupt(error) || isNoDatabase(error)
/** Whether there was no room for a write, or for the index of the log. */
export const isDiskFull = (error: unknown): boolean => isOf(error, /^SQLITE_(FULL|IOERR_SHMSIZE)$/)

/** SQLite puts a heading line before its first finding. */
export const inOneLine = (fault: string): string =>
  fault.replace(/^\*{3} in database main \*{3}\n/, '').replaceAll('\n', '; ')
