// A word as a shell takes it whole.

import { UNSEEN } from './visible-text.ts'

/**
 * As it is where no shell would take it apart, else in single quotes, and what a terminal would not show in the escapes
 * of bash and zsh: what is printed can be copied and means the same.
 */
export function quoted(word: string): string {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word
  if (word.search(UNSEEN) < 0) return singleQuoted(word)
  const escaped = word.replace(/[\\']/g, '\\$&').replace(UNSEEN, (unseen) => {
    const code = (unseen.codePointAt(0) ?? 0).toString(16)
    return `\\U${code.padStart(8, '0')}`
  })
  return `$'${escaped}'`
}

/** In single quotes always, for zsh too. */
export const singleQuoted = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`
