// Steps that create a folder or a file with its owner and mode, and know what was there before.

import {
  closeSync,
  existsSync,
  fchmodSync,
  fchownSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  type Stats,
} from 'node:fs'
import { dirname } from 'node:path'
import { Problem } from '../../core/problem.ts'
import { isLinkRefused, openUnlinked } from '../../plain-file.ts'
import { writeFileWhole } from '../../whole-file.ts'
import type { Ids } from './run-installed.ts'
import type { Step } from './step.ts'

/** `owner` may not exist yet: an earlier step creates the user. */
export type Access = { mode: number; owner: () => Ids | null }

/** `lost` says what else goes when the folder is removed. */
export function folderStep(folder: string, access: Access, lost = ''): Step {
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
    undo: seen
      ? `chown ${seen.uid}:${seen.gid} ${folder} && chmod ${octal(seen.mode & 0o7777)} ${folder}`
      : undoOf(folder, `rm -r ${folder}${lost}`),
  }
}

/** A folder of the user's own stays as it is when it exists: it may hold anything. */
export function ownFolderStep(folder: string, lost = ''): Step {
  const step = folderStep(folder, { mode: 0o700, owner: () => null }, lost)
  return { ...step, isDone: () => existsSync(folder) }
}

/**
 * A file with this text; another one of that name is kept beside it, as every copy is. Throws bad_file as `readOwn`
 * does.
 */
export function fileStep(file: string, text: string, access: Access): Step {
  const seen = readOwn(file)
  const isOther = seen !== null && seen !== text
  const kept = isOther ? nameForKept(file, seen) : ''
  return {
    what: isOther ? `${file}; the old one is kept as ${kept}` : file,
    isDone: () => seen === text && hasAccess(lstatSync(file), access),
    async perform() {
      if (isOther) await writeFileWhole(kept, toChunks(seen), { replace: true })
      if (seen !== text) await writeFileWhole(file, toChunks(text), { replace: true })
      giveAccess(file, access)
    },
    undo: isOther ? `cp ${kept} ${file}` : undoOf(file, `rm ${file}`),
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

/** None for what is removed with its folder, which was not there before. */
export const undoOf = (path: string, undo: string): string | null => (existsSync(dirname(path)) ? undo : null)

const statOf = (path: string): Stats | undefined => lstatSync(path, { throwIfNoEntry: false })

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
 * The text of a file that nobody else could have written; null when there is none. Throws bad_file for a link, for what
 * is not a file, and for somebody else's file: root would copy what only root may read, or run what they wrote.
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

async function* toChunks(text: string): AsyncIterable<string> {
  yield text
}
