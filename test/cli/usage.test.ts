// Rules for every command: exit codes, errors as JSON, no colour, its help, and no effect on a usage error.

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import { GROUPS } from '../../src/cli/help.ts'
import { asksForDatabase } from '../../src/cli/installed.ts'
import { machineAt } from '../../src/machine.ts'
import { run } from '../../src/main.ts'
import { VERSION } from '../../src/resources.ts'
import { isOnServer, temporaryFolder } from '../support/database.ts'
import {
  capture,
  errorOf,
  everyPath,
  openShell,
  runHere,
  type Shell,
  T0,
  withPartner,
} from '../support/service.ts'

const SLUG = ['partner', 'create', 'acme', '--name', 'Acme']

/**
 * Command lines with a mistake; each must leave everything unchanged. The refusals of single options are in
 * options.test.ts.
 */
const MISTAKES = [
  [],
  ['buy'],
  ['partner', 'create'],
  ['partner', 'create', 'acme', '--name', ' '],
  ['partner', 'create', 'acme', '--name', 'Acme', 'extra'],
  ['partner', 'create', 'acme', '--name', 'Acme', '--color'],
  ['partner', 'set-min-tranche', 'beta', '5.001'],
  ['key', 'create', 'beta', '--env', 'test', '--label', 'x'.repeat(256)],
  ['tier', 'set', 'gold'],
  ['tier', 'set', 'none', '--rate-bps', '1'],
  ['tick', '--price', '60000', '--price-feed', 'none'],
  ['tick', '--price-feed', 'static:0'],
  ['serve', '--tls-cert', 'cert.pem'],
  ['user', 'list', 'beta'],
  ['backup', 'copy.db\r'],
  ...(isOnServer ? [] : [['restore', 'copy.db ']]),
  ...['t.db\r', ' t.db', ':memory:'].map((db) => ['--db', db, ...SLUG]),
]

test('a usage error does nothing', async (t) => {
  const shell = await withPartner(t)
  const before = imprint(shell)
  for (const argv of MISTAKES)
    await t.test(`tranche ${argv.join(' ')}`.slice(0, 80), async () => {
      const plain = await shell.tranche(argv)
      assert.deepEqual([plain.code, plain.out], [2, ''])
      assert.notEqual(plain.err, '')
      const json = await shell.tranche([...argv, '--json'])
      assert.deepEqual([json.code, json.out], [2, ''])
      assert.equal(errorOf(json.err).code, 'usage')
      assert.equal(imprint(shell), before)
    })
})

test('a usage error makes no database, and a command that only reads or changes makes none', async (t) => {
  const shell = openShell(t)
  assert.equal((await shell.tranche(['partner', 'create', 'Acme', '--name', 'Acme'])).code, 2)
  assert.equal((await shell.tranche(['serve', '--webhook-allow-cidr', '999.0.0.0/8'])).code, 2)
  for (const words of ['status', 'check', 'tick', 'audit', 'partner list', 'tier list', 'key list acme'])
    assert.equal((await shell.tranche(words.split(' '))).code, 4, words)
  assert.deepEqual(readdirSync(shell.folder), [])
})

test('--db before and after the command, and the last one wins', async (t) => {
  const shell = openShell(t)
  const [one, two] = [join(shell.folder, 'one.db'), join(shell.folder, 'two.db')]
  assert.equal((await shell.tranche(['--db', one, ...SLUG])).code, 0)
  assert.equal((await shell.tranche([...SLUG, '--db', two])).code, 0)
  assert.deepEqual([existsSync(one), existsSync(two), existsSync(shell.file)], [true, true, false])
})

test('an unknown TRANCHE_ variable is warned of, a known one and others are not', async (t) => {
  const shell = openShell(t)
  const env = { TRANCHE_PROT: '1', TRANCHE_PORT: '1', TRANCHE_CACHE: '/x', PATH: '/bin' }
  const words = await shell.tranche(['version'], { env })
  assert.equal(words.code, 0)
  assert.match(words.err, /^warning: TRANCHE_PROT [^\n]*\n$/)
  // A script finds one JSON object on stderr, with or without an error beside the warnings.
  const json = await shell.tranche(['version', '--json'], { env })
  assert.equal(json.code, 0)
  assert.deepEqual(JSON.parse(json.err), { warnings: ['TRANCHE_PROT is not a setting of tranche'] })
  assert.doesNotThrow(() => JSON.parse(json.out))
  const failed = await shell.tranche(['status', '--json'], { env })
  assert.equal(JSON.parse(failed.err).error.code, 'database_not_found')
  assert.equal(JSON.parse(failed.err).warnings.length, 1)
})

test('a price on the command line goes before a feed in the settings', async (t) => {
  const shell = await withPartner(t)
  const env = { TRANCHE_PRICE_FEED: 'static:50000' }
  const { code, out, err } = await shell.tranche(['tick', '--price', '64000', '--json'], { env })
  assert.deepEqual([code, err], [0, ''])
  assert.equal(JSON.parse(out).price_usd, '64000.00')
})

test('no colour on a terminal with --no-color or NO_COLOR', async (t) => {
  const shell = await withPartner(t)
  const lines = [['partner', 'list'], ['status'], ['check'], ['audit'], ['tier', 'list'], ['--help'], ['buy']]
  for (const argv of lines) {
    const flag = await shell.tranche([...argv, '--no-color'], { terminal: true })
    const variable = await shell.tranche(argv, { terminal: true, env: { NO_COLOR: '1' } })
    for (const { out, err } of [flag, variable]) assert.ok(!`${out}${err}`.includes('\u001b'), argv.join(' '))
  }
})

for (const [typed, status, exit] of [
  ['y\n', 'disabled', 0],
  ['n\n', 'active', 2],
  ['\n', 'active', 2],
  // Ctrl-C, and the end of the terminal.
  ['\u0003', 'active', 130],
  ['\u0004', 'active', 2],
] as const) {
  test(`on a terminal a partner is disabled only by a yes, not by ${JSON.stringify(typed)}`, async (t) => {
    const shell = await withPartner(t)
    const isKey = !typed.endsWith('\n')
    const input = Object.assign(new PassThrough(), { isTTY: true, ...(isKey && { setRawMode: () => {} }) })
    if (isKey) input.write(typed)
    else input.end(typed)
    const { code, err } = await shell.tranche(['partner', 'disable', 'beta'], { terminal: true, input })
    assert.match(err, /Disable beta\?/)
    if (isKey) assert.match(err, /nothing was changed\.\n$/i)
    assert.equal(code, exit)
    const shown = await shell.tranche(['partner', 'show', 'beta', '--json'])
    assert.equal(JSON.parse(shown.out).status, status)
  })
}

test('on a terminal a disable asks for the last month with a minimum, until it is a month or nothing', async (t) => {
  const shell = await withPartner(t)
  const disable = async (...answers: string[]) => {
    const input = Object.assign(new PassThrough(), { isTTY: true })
    // The next answer is typed once the previous question is done.
    input.on('pause', () => input.write(`${answers.shift() ?? ''}\n`))
    input.write('y\n')
    const { code, err } = await shell.tranche(['partner', 'disable', 'beta'], { terminal: true, input })
    assert.equal(code, 0, err)
    const shown = await shell.tranche(['partner', 'show', 'beta', '--json'])
    return [err.split('in which beta owes').length - 1, JSON.parse(shown.out).last_minimum]
  }
  assert.deepEqual(await disable(''), [1, null])
  assert.deepEqual(await disable('soon', '2026-13', '2026-03'), [3, '2026-03'])
  assert.deepEqual(await disable(''), [1, '2026-03'])
  assert.deepEqual(await disable('none'), [1, null])
})

/** The names and bytes of all files of a folder, as one value. */
function imprint({ folder }: Shell): string {
  const hash = createHash('sha256')
  for (const name of readdirSync(folder).sort()) hash.update(name).update(readFileSync(join(folder, name)))
  return hash.digest('hex')
}

// Exit codes for a script: not found, a question that nobody could be asked.

test('a reset of the sandbox needs --yes wherever nobody can be asked', async (t) => {
  const shell = await withPartner(t)
  const line = ['sandbox', 'reset', 'beta']
  const input = () => Object.assign(new PassThrough(), { isTTY: true })
  const asked = [
    await shell.tranche(line),
    await shell.tranche([...line, '--json']),
    await shell.tranche([...line, '--json'], { terminal: true, input: input() }),
  ]
  for (const { code, out, err } of asked) {
    assert.deepEqual([code, out], [2, ''])
    assert.match(err, /--yes/)
  }
  assert.equal((await shell.tranche([...line, '--yes', '--json'])).code, 0)
})

test('exit 4 for a file that does not exist, wherever one is read', async (t) => {
  const shell = await withPartner(t)
  const file = join(shell.folder, 'no', 'file')
  const lines = [
    ['price', 'import', file],
    ['backtest', file],
    ...(isOnServer ? [] : [['restore', file]]),
    ['webhook', 'listen', '--forward-to', 'http://localhost:9000', '--key-file', file],
    ['webhook', 'verify', '--signature', 'x', '--secret-file', file],
    ['serve', '--tls-cert', file, '--tls-key', file],
    ['serve', '--ops-token-file', file],
    ['serve', '--webhook-ca', file],
    ['tick', '--webhook-ca', file],
  ]
  for (const line of lines) {
    const { code, out, err } = await shell.tranche([...line, '--json'])
    const { code: why, message } = errorOf(err)
    assert.deepEqual([code, out, why], [4, '', 'file_not_found'], line.join(' '))
    assert.ok(message.includes(file), message)
  }
})

// Help texts: examples that parse, exit codes, suggestions for mistyped words, and lines as wide as the stream they go
// to.

const wordsOf = (line: string): string[] =>
  [...line.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map((m) => m[1] ?? m[2] ?? m[3] ?? '')

/** A command line of an example, without `tranche` and the shell's redirections. */
const argvOf = (example: string): string[] =>
  wordsOf(example.replace(/ [<>].*/, '')).map((word) => word.replace(/^\$\w+/, 'x'))

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
      const argv = argvOf(example)
      assert.ok(argv.join(' ').includes(path.join(' ')), `${example} is of ${path.join(' ')}`)
      const { code, out: help, err } = await shell.tranche([...argv, '--help'])
      assert.deepEqual([code, err], [0, ''], example)
      const flags = argv.filter((word) => word.startsWith('--')).map((word) => word.split('=')[0] ?? '')
      const known = help + global
      for (const flag of flags) assert.ok(known.includes(`${flag} `), `${example}: ${flag}`)
    }
  }
})

/** These commands read a file as the caller, then name the database. */
const READS_FIRST = ['price import', 'billing invoice', 'billing issue', 'billing credit']

test('what opens no database does not go by the one of the installed service, and all else does', async (t) => {
  const folder = temporaryFolder(t)
  // These run for long, ask first, or look at another file first.
  const passedOver = ['serve', 'demo', 'init', 'webhook listen', 'user erase', 'restore', ...READS_FIRST]
  const { tranche } = openShell(t)
  for (const path of everyPath().map((words) => words.join(' '))) {
    const { out: help } = await tranche([...path.split(' ').filter(Boolean), '--help'])
    const argv = argvOf(/^ {2}\$ tranche (.*)$/m.exec(help)?.[1] ?? '')
    if (path === '' || passedOver.includes(path) || /^Commands:$/m.test(help)) continue
    const db = join(folder, `${path}.db`)
    const { err } = await runHere(['--db', db, ...argv])
    const opensOne = existsSync(db) || /There is no (?:tranche )?database/.test(err)
    assert.equal(asksForDatabase(path.split(' ')), opensOne, `${path}: ${err}`)
  }
})

test('--help says which options a command does not run without', async (t) => {
  const { tranche } = openShell(t)
  const { out } = await tranche(['key', 'create', '--help'])
  const needed = [...out.matchAll(/^ {2}(--\S+).*\(required\)$/gm)].map(([, name]) => name)
  assert.deepEqual(needed, ['--env'])
  assert.match((await tranche(['key', 'create', 'acme'])).err, /required option '--env/)
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

const TYPOS: [argv: string, suggested: string][] = [
  ['statsu', 'Did you mean status?'],
  ['partner lsit acme', 'Did you mean list?'],
  ['key create acme --env test --lable x', 'Did you mean --label?'],
  ['help nope', "unknown command 'nope'"],
  ['help partner lst', 'Did you mean list?'],
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

test('--version says what version says', async (t) => {
  const shell = openShell(t)
  assert.deepEqual(await shell.tranche(['--version']), { code: 0, out: `${VERSION}\n`, err: '' })
  assert.equal((await shell.tranche(['version'])).out, `${VERSION}\n`)
})

test('help wraps at the columns of the stream it goes to', async () => {
  for (const columns of [80, 100, 140]) {
    const streams = {
      out: Object.assign(capture(true), { columns }),
      err: Object.assign(capture(false), { columns: 10 }),
      in: process.stdin,
    }
    const surroundings = { streams, machine: machineAt(T0).machine, endSoon: () => {}, env: {} }
    for (const words of ['', 'serve', 'tick', 'billing export', 'check', 'execution', 'user'])
      await run([...words.split(' ').filter(Boolean), '--help'], surroundings)
    // An example is never wrapped.
    const lines = streams.out.text().split('\n')
    const longest = Math.max(...lines.filter((line) => !line.startsWith('  $ ')).map(({ length }) => length))
    assert.ok(columns - 20 < longest && longest <= columns, `the longest line has ${longest}`)
    assert.equal(streams.err.text(), '')
  }
})
