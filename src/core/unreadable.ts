// A file that was named and cannot be read: one that is not there is not found, and any other is a bad file.

import { Problem } from './problem.ts'

const MISSING = ['ENOENT', 'ENOTDIR']

/** What to throw for the error that reading `file` met. */
export function unreadable(file: string, error: unknown): Problem {
  const { code, message } = error as { code?: unknown; message: string }
  if (MISSING.includes(String(code))) return new Problem('file_not_found', `There is no file ${file}.`)
  return new Problem('bad_file', `Cannot read ${file}: ${message}`)
}
