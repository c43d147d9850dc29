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
  if (/^[\x21-\x7e]{16,1024}$/.test(token)) return token
  throw new Problem('usage', `${file} must hold one token: 16 to 1024 printable characters, no blanks.`)
}
