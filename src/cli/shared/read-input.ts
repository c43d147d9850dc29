// A file that a command line names for its text: a key, a secret, a certificate.

import { readFileSync } from 'node:fs'
import { unreadable } from '../../core/unreadable.ts'

/** A secret in a file. One written by an editor or `echo` ends in a line break that is not part of it. */
export const readSecret = (file: string): string => readInput(file).replace(/\r?\n$/, '')

/** The text of a file. Throws file_not_found and bad_file. */
export function readInput(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw unreadable(file, error)
  }
}
