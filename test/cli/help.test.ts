// What help there is: examples that parse, exit codes, suggestions for what was mistyped, and lines as wide as the
// stream they go to.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { GROUPS } from '../../src/cli/help.ts'
import { machineAt } from '../../src/machine.ts'
import { run } from '../../src/main.ts'
import { VERSION } from '../../src/resources.ts'
import { capture, errorOf, everyPath, openShell, T0 } from '../support/service.ts'

const wordsOf = (line: string): string[] =>
  [...line.matchAll(/"([^"]*)"|(\S+)/g)].map((m) => m[1] ?? m[2] ?? '')

test('every command has one section of examples, and every example parses', async (t) => {
  const shell = openShell(t)
  const all = everyPath()
  const { out: global } = await shell.tranche(['--help'])
  assert.ok(all.length > 40, 'the tree has its commands')
  for (const path of all) {
    const { out } = await shell.tranche([...path, '--help'])
    const titles = out.match(/^Examples?:$/gm) ?? []
    assert.equal(titles.length, 1, `tranche ${path.join(' ')} has one section of examples`)
    const examples = [...out.matchAll(/^ {2}\$ tranche (.*)$/gm)].map((match) => match[1] ?? '')
    assert.notEqual(examples.length, 0, `tranche ${path.join(' ')} has an example`)
    for (const example of examples) {
      const argv = wordsOf(example.replace(/ [<>].*/, '')).map((word) => word.replace(/^\$\w+/, 'x'))
      assert.ok(argv.join(' ').includes(path.join(' ')), `${example} is of ${path.join(' ')}`)
      const { code, out: help, err } = await shell.tranche([...argv, '--help'])
      assert.deepEqual([code, err], [0, ''], example)
      const flags = argv.filter((word) => word.startsWith('--')).map((word) => word.split('=')[0] ?? '')
      const known = help + global
      for (const flag of flags) assert.ok(known.includes(`${flag} `), `${example}: ${flag}`)
    }
  }
})

test('--help has every command in one group, and the groups in their order', async (t) => {
  const { out } = await openShell(t).tranche(['--help'])
  const commands = everyPath().flatMap(([name, ...more]) => (name && more.length === 0 ? [name] : []))
  const grouped = GROUPS.flatMap((group) => group.commands)
  assert.deepEqual([...grouped].sort(), [...commands, 'help'].sort())
  const [, ...sections] = out.slice(0, out.indexOf('\nExamples:')).split('\n\n').slice(2)
  const listed = sections.map((section) => {
    const [heading, ...lines] = section.trim().split('\n')
    return { heading, commands: lines.flatMap((line) => /^ {2}([a-z-]+)/.exec(line)?.[1] ?? []) }
  })
  assert.deepEqual(listed, GROUPS)
})

test('commands whose exit codes say more tell so', async (t) => {
  const shell = openShell(t)
  for (const words of ['check', 'billing reconcile', 'webhook verify', 'tick', 'serve', 'migrate', '']) {
    const { out } = await shell.tranche([...words.split(' ').filter(Boolean), '--help'])
    assert.match(out, /^Exit codes: \d/m, words)
  }
})

const TYPOS: [argv: string, suggested: string][] = [
  ['statsu', 'Did you mean status?'],
  ['partner lst', 'Did you mean list?'],
  ['partner lsit acme', 'Did you mean list?'],
  ['billing exprot --month 2026-01', 'Did you mean export?'],
  ['key create acme --env test --lable x', 'Did you mean --label?'],
  ['help statsu', 'Did you mean status?'],
  ['help nope', "unknown command 'nope'"],
  ['help partner lst', 'Did you mean list?'],
  ['partner help lst', 'Did you mean list?'],
  ['help partner list nope', "'partner list' has no command 'nope'"],
  ['status --jsn', 'Did you mean --json?'],
  ['key create acme --evn test', "there is no option '--evn'"],
]

for (const [line, suggested] of TYPOS) {
  test(`tranche ${line}: ${suggested}`, async (t) => {
    const shell = openShell(t)
    const plain = await shell.tranche(line.split(' '))
    assert.deepEqual([plain.code, plain.out], [2, ''])
    assert.ok(plain.err.includes(suggested), plain.err)
    const json = await shell.tranche([...line.split(' '), '--json'])
    const { error } = JSON.parse(json.err)
    assert.equal(error.code, 'usage')
    assert.ok(error.message.includes(suggested), error.message)
    assert.doesNotMatch(error.message, /\n/)
  })
}

test('help of a command is what its --help says', async (t) => {
  const shell = openShell(t)
  for (const line of ['help', 'help partner', 'help partner create', 'partner help create', 'help help']) {
    const path = line.split(' ').filter((word) => word !== 'help')
    const [asked, said] = [await shell.tranche(line.split(' ')), await shell.tranche([...path, '--help'])]
    assert.deepEqual(asked, said, line)
    assert.equal(asked.code, 0)
  }
  assert.match((await shell.tranche(['docs', 'help'])).err, /help/)
})

test('of a complaint there is one JSON document and nothing else, also behind --', async (t) => {
  const shell = openShell(t)
  const { code, err } = await shell.tranche(['partner', 'list', '--', '--json'])
  assert.equal(code, 2)
  assert.match(errorOf(err).message, /too many arguments/)
})

test('--version says what version says', async (t) => {
  const shell = openShell(t)
  assert.deepEqual(await shell.tranche(['--version']), { code: 0, out: `${VERSION}\n`, err: '' })
  assert.equal((await shell.tranche(['version'])).out, `${VERSION}\n`)
})

for (const columns of [80, 100, 140]) {
  test(`help wraps at ${columns} columns of the stream it goes to`, async () => {
    const streams = {
      out: Object.assign(capture(true), { columns }),
      err: Object.assign(capture(false), { columns: 10 }),
      in: process.stdin,
    }
    for (const words of [
      [],
      ['serve'],
      ['tick'],
      ['billing', 'export'],
      ['check'],
      ['execution'],
      ['user'],
    ]) {
      await run([...words, '--help'], { streams, machine: machineAt(T0).machine, endSoon: () => {}, env: {} })
    }
    // An example is never cut in two.
    const long = streams.out
      .text()
      .split('\n')
      .filter((line) => !line.startsWith('  $ '))
    const longest = Math.max(...long.map(({ length }) => length))
    assert.ok(columns - 20 < longest && longest <= columns, `the longest line has ${longest}`)
    assert.equal(streams.err.text(), '')
  })
}

test('help that goes to a file is 80 columns wide', async (t) => {
  const shell = openShell(t)
  const { out } = await shell.tranche(['--help'])
  assert.ok(Math.max(...out.split('\n').map(({ length }) => length)) <= 80, out)
})
