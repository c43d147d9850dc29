// What commands print with: colours, the progress bar, words quoted for a shell.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import { createPaint, createProgress } from '../../src/cli/terminal.ts'
import { quoted } from '../../src/core/text.ts'
import { capture } from '../support/service.ts'

const stream = (isTTY: boolean, colours = 8) =>
  Object.assign(new PassThrough(), { isTTY, getColorDepth: () => colours })

test('colours are for terminals, unless they are not wanted', () => {
  assert.notEqual(createPaint(stream(true), true)('red', 'x'), 'x')
  assert.equal(createPaint(stream(true), false)('red', 'x'), 'x')
  assert.equal(createPaint(stream(false), true)('red', 'x'), 'x')
  assert.equal(createPaint(stream(true, 1), true)('red', 'x'), 'x')
})

test('the progress bar is for terminals', () => {
  const [terminal, plain] = [capture(true), capture(false)]
  for (const err of [terminal, plain]) {
    const progress = createProgress({ err }, () => 'day 1')
    progress.show(0.5)
    progress.clear()
  }
  assert.equal(terminal.text(), `\r${'█'.repeat(20)}${'░'.repeat(20)}  50 %  day 1\x1b[K\r\x1b[K`)
  assert.equal(plain.text(), '')
})

test('the progress bar is drawn once for each percent, never above 100, and clears what a longer label left', () => {
  const err = capture(true)
  const progress = createProgress({ err }, (share) => (share < 0.1 ? '1 d 23 h' : '2 d'))
  for (let n = 0; n <= 1_000; n += 1) progress.show(n / 1_000)
  progress.show(1.01)
  const drawn = err.text().split('\r').slice(1)
  assert.equal(drawn.length, 101)
  assert.equal(drawn.at(-1), `${'█'.repeat(40)} 100 %  2 d\x1b[K`)
})

for (const word of ['plan-1', 'two words', "it's", '$HOME `id` "x"', 'a\nb', 'ü', '*']) {
  test(`a shell takes ${JSON.stringify(word)} for one word`, () => {
    assert.equal(
      execFileSync('bash', ['-c', `printf '[%s]' ${quoted(word)}`], { encoding: 'utf8' }),
      `[${word}]`,
    )
  })
}

test('a word that needs no quotes gets none', () => assert.equal(quoted('/var/lib/a.db'), '/var/lib/a.db'))
