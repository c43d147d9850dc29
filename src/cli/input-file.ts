// A file named on the command line for its text: a key, a secret, a certificate.

import { closeSync, fstatSync, readFileSync, readSync } from 'node:fs'
import { Problem, unreadable } from '../core/problem.ts'
import { openNamed } from '../plain-file.ts'

/** The webhook secret in a file, else in TRANCHE_WEBHOOK_SECRET, else null. Throws bad_file for an empty file. */
export function givenSecret(file: string | undefined): string | null {
  if (file === undefined) return process.env.TRANCHE_WEBHOOK_SECRET || null
  // An editor or `echo` ends it with a line break that is not part of it.
  const secret = readInput(file).replace(/\r?\n$/, '')
  if (secret === '') throw new Problem('bad_file', `${file} holds no secret.`)
  return secret
}

/** The service checks the checksum, and its answer explains what is wrong with a key. */
const LOOKS_LIKE_KEY = /^sse_(test|live)_[0-9A-Za-z]+$/

/** The API key in a file. Throws file_not_found and bad_file. */
export function readKeyFile(file: string): string {
  const key = readInput(file).trim()
  if (!LOOKS_LIKE_KEY.test(key)) throw new Problem('bad_file', `${file} holds no API key.`)
  return key
}

/**
 * The text of a file. A pipe is waited for, and after a second a remark on stderr says so. Throws file_not_found and
 * bad_file, also for a pipe that is silent for a minute.
 */
export function readInput(file: string): string {
  return readOpened(file, (descriptor) => {
    const found = fstatSync(descriptor)
    if (found.isFIFO()) return readPipe(descriptor, file)
    // Anything else, such as a terminal, is opened again by its name: this descriptor does not block.
    return readFileSync(found.isFile() ? descriptor : file, 'utf8')
  })
}

/** The text of a regular file, for a process that must not wait. Throws file_not_found and bad_file. */
export function readRegular(file: string): string {
  return readOpened(file, (descriptor) => {
    if (!fstatSync(descriptor).isFile()) throw new Error('it is not a regular file')
    return readFileSync(descriptor, 'utf8')
  })
}

function readOpened(file: string, read: (descriptor: number) => string): string {
  try {
    const descriptor = openNamed(file)
    try {
      return read(descriptor)
    } finally {
      closeSync(descriptor)
    }
  } catch (error) {
    throw unreadable(file, error)
  }
}

const PAUSE_MS = 20
const SAY_AFTER_MS = 1_000
const PIPE_WAIT_MS = 60_000

/** Reads until the writers are gone. Before the first one comes, a pipe looks empty. */
function readPipe(descriptor: number, file: string): string {
  const pieces: Buffer[] = []
  const piece = Buffer.alloc(64 * 1024)
  const pause = new Int32Array(new SharedArrayBuffer(4))
  for (let silentMs = 0; silentMs < PIPE_WAIT_MS; silentMs += PAUSE_MS) {
    const read = readNow(descriptor, piece)
    if (read === 0 && pieces.length > 0) return Buffer.concat(pieces).toString('utf8')
    if (read !== null && read > 0) {
      pieces.push(Buffer.from(piece.subarray(0, read)))
      silentMs = 0
      continue
    }
    if (silentMs === SAY_AFTER_MS) process.stderr.write(`Waiting for ${file}, which is a pipe ...\n`)
    Atomics.wait(pause, 0, 0, PAUSE_MS)
  }
  throw new Error(`nothing came through this pipe for ${PIPE_WAIT_MS / 1000} seconds`)
}

/** The number of bytes read; null when there were none yet. */
function readNow(descriptor: number, into: Buffer): number | null {
  try {
    return readSync(descriptor, into)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return null
    throw error
  }
}
