// The token of those who run serve: what it must be like, and where it must not be missing.

import { Option } from 'commander'
import { Problem } from '../../core/problem.ts'
import { readInput } from '../shared/read-input.ts'

export const opsTokenOption = (): Option =>
  new Option(
    '--ops-token-file <file>',
    'anyone who sends this token may see /metrics, details of /readyz and /ops, at either listener',
  ).env('TRANCHE_OPS_TOKEN_FILE')

/** Throws usage for a file without a token, and for a listener that others can reach without one. */
export async function tokenOf(
  listener: { host: string } | null,
  file: string | undefined,
): Promise<string | null> {
  const { isLoopbackAddress, KEY_START } = await import('../../http/ops/access.ts')
  if (listener && file === undefined && !isLoopbackAddress(listener.host)) {
    const what = `--ops-listen ${listener.host}, which other machines may reach,`
    throw new Problem('usage', `${what} needs --ops-token-file.`)
  }
  return file === undefined ? null : readToken(file, KEY_START)
}

/** Throws usage when the file does not hold a proper token. */
function readToken(file: string, keyStart: string): string {
  const token = readInput(file).trim()
  if (token.startsWith(keyStart))
    throw new Problem(
      'usage',
      `${file} holds a partner's key. The ops token must be another one, such as 32 random characters.`,
    )
  if (!/^[\x21-\x7e]{16,1024}$/.test(token))
    throw new Problem('usage', `${file} must hold one token: 16 to 1024 printable characters, no blanks.`)
  if (isEasilyGuessed(token))
    throw new Problem(
      'usage',
      `The token in ${file} is easily guessed. Make one with: head -c 24 /dev/urandom | base64`,
    )
  return token
}

/** Different characters that a token has at least. Of 16 random digits, one in 10,000 has fewer. */
const DIFFERENT_MIN = 5
/** Characters that a token has at least before it begins to repeat itself. */
const BEFORE_REPEATING_MIN = 16
/** As few as this come again by chance. */
const REPEATED_BY_CHANCE = 3

/**
 * Nothing but the token itself stops somebody who guesses: a right one is let in however many wrong ones came before.
 * This finds what people type to reach a length, not every word that they may choose.
 */
function isEasilyGuessed(token: string): boolean {
  const repeats = (after: number): boolean =>
    token.length - after > REPEATED_BY_CHANCE && token.startsWith(token.slice(after))
  const parts = Array.from({ length: BEFORE_REPEATING_MIN - 1 }, (_, i) => i + 1)
  return new Set(token).size < DIFFERENT_MIN || parts.some(repeats)
}
