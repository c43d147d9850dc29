// Commands on a terminal: colours, the progress bar, words quoted for a shell, and the screen of status --watch.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { PassThrough } from 'node:stream'
import { suite, type TestContext, test } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import { createPaint, createProgress } from '../../src/cli/terminal.ts'
import { quoted } from '../../src/core/text.ts'
import { filled } from '../store/copies.ts'
import { PROGRAM, type Started, start } from '../support/process.ts'
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

test('a shell takes a quoted word for one word, whatever is in it', () => {
  const words = ['plan-1', 'two words', "it's", '$HOME `id` "x"', 'a\nb', 'ü', '*']
  const script = `printf '[%s]' ${words.map(quoted).join(' ')}`
  const out = execFileSync('bash', ['-c', script], { encoding: 'utf8' })
  assert.equal(out, words.map((word) => `[${word}]`).join(''))
})

test('a word that needs no quotes gets none', () => assert.equal(quoted('/var/lib/a.db'), '/var/lib/a.db'))

// status --watch: a live screen on a terminal, one status after the other elsewhere.

const ENTER = '\x1b[?1049h\x1b[?25l\x1b[?7l'
const LEAVE = '\x1b[?7h\x1b[?25h\x1b[?1049l'
suite('status --watch', { concurrency: 4 }, () => {
  for (const [what, flags, one] of [
    ['JSON lines', ['--json'], /^\{"at":.*\}$/gm],
    ['statuses in words', [], /^last tick .*$/gm],
  ] as const) {
    test(`without a terminal it prints ${what}, one an interval, until it is interrupted`, async (t) => {
      const file = await filled(t)
      const argv = ['--db', file, 'status', '--watch', '--every', '1s', ...flags]
      const started = start(t, argv, { cwd: '/' })
      const out = await started.prints((text) => (text.match(one) ?? []).length >= 2)
      started.child.kill('SIGINT')
      assert.equal(await started.ended, 130)
      assert.equal(started.err(), '')
      assert.ok(!out.includes('\x1b'), 'no escapes')
      if (flags.length > 0) for (const line of out.trim().split('\n')) JSON.parse(line)
    })
  }

  test('a database that is not there ends it before the screen is touched', async (t) => {
    const started = onTerminal(t, ['--db', '/nowhere/tranche.db', 'status', '--watch'])
    assert.equal(await started.ended, 4)
    assert.match(started.out(), /There is no database/)
    assert.ok(!started.out().includes('\x1b[?'))
  })

  for (const [what, key, code] of [
    ['q', 'q', 0],
    ['Ctrl-C', '\x03', 130],
  ] as const) {
    test(`on a terminal the screen is redrawn in place, and ${what} gives the terminal back`, async (t) => {
      const started = onTerminal(t, ['--db', await filled(t), 'status', '--watch', '--every', '1s'])
      await started.prints((text) => text.split('\x1b[H').length > 2)
      started.child.stdin.write(key)
      assert.equal(await started.ended, code)
      const out = started.out()
      assert.ok(out.includes(ENTER) && out.trimEnd().endsWith(LEAVE), JSON.stringify(out.slice(-80)))
      assert.ok(out.indexOf(ENTER) < out.indexOf('\x1b[H'))
      assert.ok(out.includes('\x1b[32m') && out.includes('\x1b[36m'), 'it has colours')
      assert.match(stripVTControlCharacters(out), /latest executions/)
    })
  }
})

/** Runs the program on a terminal of its own. */
function onTerminal(t: TestContext, argv: readonly string[], env: Record<string, string> = {}): Started {
  const command = [...PROGRAM, ...argv].map((word) => `'${word}'`).join(' ')
  return start(t, ['-qfec', command, '/dev/null'], {
    cwd: '/',
    env: { PATH: process.env.PATH ?? '', TERM: 'xterm-256color', SHELL: '/bin/sh', ...env },
    program: ['script'],
  })
}
