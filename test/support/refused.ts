// A command that a database refuses: one sentence, in each way of asking, and never a password.

import assert from 'node:assert/strict'
import { runHere } from './command.ts'
import { PASSWORD } from './postgres-user.ts'

export type Refusal = { exit: number; code: string; says: RegExp }

/**
 * A command on a database fails with one sentence, which does not hold the password, and each way of asking says it.
 */
export async function assertRefused(
  db: string,
  { exit, code, says }: Refusal,
  argv = ['partner', 'list'],
): Promise<void> {
  const ways = [
    ['--db', db, '--json', ...argv],
    ['--db', db, ...argv],
  ]
  const outcomes = await Promise.all(ways.map(async (words) => ({ words, ...(await runHere(words)) })))
  for (const { words, ...outcome } of outcomes) {
    assert.doesNotMatch(outcome.out + outcome.err, new RegExp(PASSWORD))
    assert.equal(outcome.out, '')
    assert.equal(outcome.code, exit, outcome.err)
    const last = outcome.err.trimEnd().split('\n').at(-1) ?? ''
    if (!words.includes('--json')) assert.match(last, says)
    else assert.equal(JSON.parse(last).error.code, code)
  }
}
