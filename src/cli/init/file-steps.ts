// Steps of init that create a folder or a file with its owner and mode, and know what was there before.

import { createHash, hash } from 'node:crypto'
import {
  chmodSync,
  closeSync,
  existsSync,
  fchmodSync,
  fchownSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readSync,
  type Stats,
  statSync,
} from 'node:fs'
import { Problem } from '../../core/problem.ts'
import { isLinkRefused, openNamed, openUnlinked } from '../../plain-file.ts'
import { writeFileWhole } from '../../whole-file.ts'

export type Step = {
  /** The thing that exists once the step is done. */
  what: string
  /** Throws when something is in the way that only a person can decide about. */
  isDone: () => boolean
  perform: () => void | Promise<void>
}

export type Taken = { state: 'already' | 'done' | 'would'; what: string }

export type Ids = { uid: number; gid: number }

/** `owner` may not exist yet: an earlier step creates the user. */
type Access = { mode: number; owner: () => Ids | null }

export function folderStep(folder: string, access: Access): Step {
  const seen = statOf(folder)
  return {
    what: `${folder}/, mode ${octal(access.mode)}`,
    isDone() {
      if (seen && !seen.isDirectory())
        throw new Problem('bad_file', `${folder} is a link or a file: move it away, then run init again.`)
      return seen !== undefined && hasAccess(seen, access)
    },
    perform() {
      mkdirSync(folder, { recursive: true, mode: access.mode })
      giveAccess(folder, access)
    },
  }
}

/** A folder of the user's own stays as it is when it exists: it may hold anything. */
export function ownFolderStep(folder: string): Step {
  const step = folderStep(folder, { mode: 0o700, owner: () => null })
  return { ...step, isDone: () => existsSync(folder) }
}

/**
 * A file with this text; another one of that name is kept beside it, as every copy is, unless the list in `written`
 * says that it is as init wrote it. Throws bad_file as `readOwn` does.
 */
export function fileStep(
  file: string,
  text: string,
  { written, ...access }: Access & { written: string },
): Step {
  const seen = readOwn(file)
  const lineOf = (content: string) => `${hash('sha256', content)}  ${file}`
  const listed = () => (readOwn(written) ?? '').split('\n').filter((line) => line !== '')
  const isOwn = seen !== null && listed().includes(lineOf(seen))
  const backup = seen !== null && seen !== text && !isOwn ? nameForKept(file, seen) : null
  return {
    what: backup === null ? file : `${file}; the old one is kept as ${backup}`,
    isDone: () => seen === text && isOwn && hasAccess(lstatSync(file), access),
    async perform() {
      if (seen !== null && backup !== null) await writeFileWhole(backup, [seen], { replace: true })
      if (seen !== text) await writeFileWhole(file, [text], { replace: true })
      giveAccess(file, access)
      const others = listed().filter((line) => !line.endsWith(`  ${file}`))
      await writeFileWhole(written, [[...others, lineOf(text), ''].join('\n')], { replace: true })
      // It has no secret, and the user of the jobs copies the whole folder away.
      chmodSync(written, 0o644)
    },
  }
}

/** The first name that holds no other copy: the oldest is what was there before any init. A link is no copy. */
function nameForKept(file: string, text: string): string {
  for (let number = 1; ; number += 1) {
    const name = `${file}.before-init${number === 1 ? '' : `-${number}`}`
    const there = statOf(name)
    if (!there?.isFile() || (there.uid === process.getuid?.() && readOwn(name) === text)) return name
  }
}

export const statOf = (path: string): Stats | undefined => lstatSync(path, { throwIfNoEntry: false })

const octal = (mode: number): string => mode.toString(8).padStart(4, '0')

function hasAccess({ uid, gid, mode: seen }: Stats, { mode, owner }: Access): boolean {
  const wanted = owner()
  return wanted?.uid === uid && wanted.gid === gid && (seen & 0o777) === mode
}

function giveAccess(path: string, { mode, owner }: Access): void {
  const { uid, gid } = owner() ?? { uid: -1, gid: -1 }
  onPlace(path, (place) => {
    fchownSync(place, uid, gid)
    fchmodSync(place, mode)
  })
}

/**
 * The text of a file that no other user could have written; null when there is none. Throws bad_file for a link, for
 * what is not a file, and for another user's file: root would otherwise copy what only root may read, or run what that
 * user wrote.
 */
export function readOwn(file: string): string | null {
  if (!statOf(file)) return null
  return onPlace(file, (place) => {
    const { uid } = fstatSync(place)
    if (!fstatSync(place).isFile()) throw notPlain(file)
    if (uid === process.getuid?.()) return readFileSync(place, 'utf8')
    const mend = 'look at it, make it yours or move it away, then run init again'
    throw new Problem('bad_file', `${file} belongs to another user (uid ${uid}): ${mend}.`)
  })
}

/** Opens the file itself, never the target of a link, which may have appeared since the check. It does not block. */
function onPlace<T>(path: string, work: (place: number) => T): T {
  let place: number
  try {
    place = openUnlinked(path)
  } catch (error) {
    throw isLinkRefused(error) ? notPlain(path) : error
  }
  try {
    return work(place)
  } finally {
    closeSync(place)
  }
}

const notPlain = (path: string): Problem =>
  new Problem('bad_file', `${path} is a link or not a plain file: move it away, then run init again.`)

/** Throws the error of the file system for a file that cannot be read. */
export const haveSameContent = (one: string, other: string): boolean =>
  statSync(one).size === statSync(other).size && hashOf(one) === hashOf(other)

/** Read piece by piece: an executable has more than 150 MB. */
function hashOf(file: string): string {
  const sha256 = createHash('sha256')
  const piece = Buffer.allocUnsafe(1 << 20)
  const opened = openNamed(file)
  try {
    for (let read = readSync(opened, piece); read > 0; read = readSync(opened, piece))
      sha256.update(piece.subarray(0, read))
    return sha256.digest('hex')
  } finally {
    closeSync(opened)
  }
}
