// Golden transcripts: each file of fixtures/transcripts is played line by line and compared with itself.
//
//   $ tranche ...      a command whose output is not a terminal       % tranche ...   one whose output is
//   @ METHOD path ...  a call of the API, with the newest key      + 8h            the clock advances
//
// Under a command are its stdout as it is, its stderr after "! ", and its exit code after "? " when it is not 0.
// Ids and keys are numbered in the order they appear: exec_<1>, key_<1>, sse_test_<1>. UPDATE=1 rewrites the files.

import assert from 'node:assert/strict'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { duration } from '../../src/cli/options.ts'
import { VERSION } from '../../src/resources.ts'
import { everyPath, openShell, type Shell } from '../support/service.ts'

const FOLDER = join(import.meta.dirname, '../../fixtures/transcripts')
const files = readdirSync(FOLDER).filter((name) => name.endsWith('.txt'))

for (const name of files) {
  test(`transcript ${name}`, async (t) => {
    const golden = readFileSync(join(FOLDER, name), 'utf8')
    const played = await play(openShell(t), golden)
    if (process.env.UPDATE) writeFileSync(join(FOLDER, name), played)
    else assert.equal(played, golden)
  })
}

test('every command is in a transcript, in words and as JSON', () => {
  const lines = files.flatMap((name) => readFileSync(join(FOLDER, name), 'utf8').split('\n'))
  const commands = lines.filter((line) => /^[$%] tranche /.test(line)).map((line) => line.slice(2))
  const named = (words: string, json: boolean) =>
    commands.some((line) => {
      const plain = line.replace(/ --(json|no-color)| --db \S+/g, '')
      return plain.startsWith(`tranche ${words}`) && line.includes(' --json') === json
    })
  // The long-running ones have tests of their own, and so has init, which changes the machine.
  const paths = everyPath().map((path) => path.join(' '))
  const leaves = paths.filter(
    (words) => words !== '' && !paths.some((other) => other.startsWith(`${words} `)),
  )
  const all = leaves.filter(
    (words) => !/^(serve|demo|init|webhook listen|docs|openapi|completion)$/.test(words),
  )
  assert.ok(all.length > 20, 'the tree has its commands')
  for (const words of all) {
    assert.ok(named(words, false), `${words} in words`)
    assert.ok(named(words, true), `${words} --json`)
  }
})

async function play(shell: Shell, script: string): Promise<string> {
  const alias = createAliases()
  let key = ''
  const lines: string[] = []
  for (const line of script.split('\n')) {
    // Comments are separated from the lines before and after; any other line is output, which is replaced.
    if (line.startsWith('#') !== (lines.at(-1) ?? '#').startsWith('#') && /^[#$%@+]/.test(line))
      lines.push('')
    if (line.startsWith('#')) lines.push(line)
    const [, kind, rest = ''] = /^([$%@+]) (.*)$/.exec(line) ?? []
    if (kind === undefined) continue
    lines.push(line)
    const real = alias.reveal(rest).replaceAll('<folder>', shell.folder)
    if (kind === '+') shell.advance(duration(real))
    else if (kind === '@') {
      const [method = '', path = '', ...body] = real.split(' ')
      const answer = await shell.call(method, path, key, body.length > 0 ? body.join(' ') : undefined)
      alias.mask(answer.text)
      lines.push(`< ${answer.status}`)
    } else {
      const [, ...argv] = split(real)
      const { code, out, err } = await shell.tranche(argv, { terminal: kind === '%' })
      key = /sse_(?:test|live)_\w{46}/.exec(out)?.[0] ?? key
      const shown = [...text(out), ...text(err).map((part) => `! ${part}`)]
      if (code !== 0) shown.push(`? ${code}`)
      lines.push(...shown.map((part) => alias.mask(part.replaceAll(shell.folder, '<folder>'))))
    }
  }
  return `${lines.join('\n').trimEnd()}\n`
}

const text = (output: string): string[] => (output === '' ? [] : output.replace(/\n$/, '').split('\n'))

/** Splits a command line as a shell would: blanks separate, quotes keep together. */
const split = (line: string): string[] =>
  [...line.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map((part) => part[1] ?? part[2] ?? part[3] ?? '')

function createAliases() {
  const shown = new Map<string, string>()
  const counts: Record<string, number> = {}
  return {
    mask: (output: string): string =>
      output
        // The shell adds --db to each line, and so do suggested commands.
        .replaceAll('tranche --db <folder>/tranche.db ', 'tranche ')
        .replace(
          /(exec_|key_|sse_test_|sse_live_)([0-9a-zA-Z]{46}|[0-9a-f]{32}|[0-9a-f]{16})\b/g,
          (real, prefix) => {
            const known = shown.get(real)
            if (known !== undefined) return known
            counts[prefix] = (counts[prefix] ?? 0) + 1
            shown.set(real, `${prefix}<${counts[prefix]}>`)
            return `${prefix}<${counts[prefix]}>`
          },
        )
        .replace(/"duration_ms":\d+/, '"duration_ms":<n>')
        .replace(/(duration_ms +)\d+/, '$1<n>')
        .replace(/^disk( +).*/, 'disk$1<room>')
        .replace(/"disk":\{[^}]*\}/, '"disk":<room>')
        .replace(/in \d+ ms\./, 'in <n> ms.')
        .replace(/"bytes":\d+/, '"bytes":<n>')
        .replace(/ \d+ bytes$/, ' <n> bytes')
        .replaceAll(VERSION, '<version>')
        .replaceAll(process.versions.node, '<node>'),
    reveal: (line: string): string => {
      let real = line
      for (const [id, name] of shown) real = real.replaceAll(name, id)
      return real
    },
  }
}
