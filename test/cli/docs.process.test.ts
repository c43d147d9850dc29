// The guides and the files that the executable carries, and the completion scripts, each in its shell.

import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import {
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join, relative } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../support/database.ts'
import { finish } from '../support/process.ts'
import { openShell, runHere } from '../support/service.ts'
import { hasTool } from '../support/tools.ts'

test('the executable has every page that the source has', async (t) => {
  const cwd = temporaryFolder(t)
  // The beginning of several names is refused with all of them.
  for (const topic of [[], ['decisions/'], ['decisions/clock'], ['operations']]) {
    const argv = ['docs', ...topic, '--json']
    assert.deepEqual(await finish(t, argv, { cwd }), await runHere(argv))
  }
})

/** The texts of the files in a folder that a pattern names, by their paths in it. */
const textsIn = (folder: string, pattern = '**/*'): Record<string, string> =>
  Object.fromEntries(
    globSync(pattern, { cwd: folder, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => join(parentPath, name))
      .map((file) => [relative(folder, file), readFileSync(file, 'utf8')])
      .sort(),
  )

const SAMPLES = join(import.meta.dirname, '../../docs/examples')
const PROGRAMS = '{*.md,*/*.{mjs,py}}'

test('the executable alone has the programs that its guides tell one to copy: printed, and written', async (t) => {
  const cwd = temporaryFolder(t)
  const samples = textsIn(SAMPLES, PROGRAMS)
  assert.ok(Object.keys(samples).length >= 8)
  const name = 'examples/python/partner.py'
  const text = samples['python/partner.py']
  assert.deepEqual(await finish(t, ['docs', name], { cwd }), { code: 0, out: text, err: '' })
  const words = `${Object.keys(samples).length} files are in mine; mine/README.md says how to start them.\n`
  const said = await finish(t, ['docs', '--examples', 'mine'], { cwd })
  assert.deepEqual(said, { code: 0, out: words, err: '' })
  assert.deepEqual(textsIn(join(cwd, 'mine')), samples)
})

test('the executable alone has all of deploy/: written whole, through no link, over nothing without --force', async (t) => {
  const cwd = temporaryFolder(t)
  const source = textsIn(join(import.meta.dirname, '../../deploy'))
  for (const name of ['Dockerfile', 'compose.yaml', 'tranche-tick.timer', 'postgres/haproxy.cfg'])
    assert.ok(name in source, name)
  const deploy = (...more: string[]) => finish(t, ['docs', '--deploy', 'mine', ...more], { cwd })
  const words = `${Object.keys(source).length} files are in mine; mine/README.md says what each is for.\n`
  assert.deepEqual(await deploy(), { code: 0, out: words, err: '' })
  assert.deepEqual(textsIn(join(cwd, 'mine')), source)
  rmSync(join(cwd, 'mine/README.md'))
  rmSync(join(cwd, 'mine/compose.yaml'))
  writeFileSync(join(cwd, 'precious'), 'precious')
  symlinkSync(join(cwd, 'precious'), join(cwd, 'mine/compose.yaml'))
  const again = await deploy()
  assert.deepEqual([again.code, again.out], [5, ''])
  assert.match(again.err, /^error: mine\/\S+ already exists, and nothing was written: .*add --force\.$/m)
  assert.ok(!existsSync(join(cwd, 'mine/README.md')))
  assert.equal((await deploy('--force')).out, words)
  assert.deepEqual(textsIn(join(cwd, 'mine')), source)
  assert.equal(readFileSync(join(cwd, 'precious'), 'utf8'), 'precious')
  rmSync(join(cwd, 'mine/postgres'), { recursive: true })
  symlinkSync(cwd, join(cwd, 'mine/postgres'))
  const linked = await deploy('--force')
  assert.equal(linked.code, 1)
  assert.match(linked.err, /mine\/postgres is a link, not a folder, and nothing was written/)
  assert.ok(!existsSync(join(cwd, 'haproxy.cfg')))
})

test('a folder that somebody exchanges for a link while the files are written leads nowhere', async (t) => {
  const cwd = temporaryFolder(t)
  const mine = join(cwd, 'mine')
  const elsewhere = join(cwd, 'elsewhere')
  mkdirSync(elsewhere)
  const script = `const fs = require('node:fs'); fs.mkdirSync('mine')
    const tried = (work) => { try { work() } catch {} }
    for (;;) {
      tried(() => fs.rmSync('mine/postgres', { recursive: true }))
      tried(() => fs.symlinkSync('../elsewhere', 'mine/postgres'))
      tried(() => fs.unlinkSync('mine/postgres'))
    }`
  const racing = spawn(process.execPath, ['-e', script], { cwd, stdio: 'ignore' })
  t.after(() => racing.kill('SIGKILL'))
  while (!existsSync(mine)) await new Promise((resolve) => setTimeout(resolve, 20))
  for (let n = 0; n < RACES && readdirSync(elsewhere).length === 0; n++)
    await runHere(['docs', '--deploy', mine, '--force'])
  assert.deepEqual(readdirSync(elsewhere), [])
})

/** Without the guard, one of the first ten followed the link. */
const RACES = 100

// The completion scripts, each in the shell it is for.

/** The typed words up to the cursor, and the words that must and must not be offered. */
const CASES: { typed: string; offered: string[]; not?: string[] }[] = [
  { typed: 'tranche par', offered: ['partner'], not: ['key', '--json'] },
  { typed: 'tranche ', offered: ['serve', 'tick', 'billing', 'completion'], not: ['create'] },
  { typed: 'tranche partner ', offered: ['create', 'list', 'set-tier'], not: ['serve', 'rotate'] },
  { typed: 'tranche --db x.db key ', offered: ['create', 'rotate', 'revoke'], not: ['serve', 'x.db'] },
  {
    typed: 'tranche key create acme --',
    offered: ['--env', '--label', '--json', '--help'],
    not: ['--overlap'],
  },
  { typed: 'tranche key create acme --env ', offered: ['live', 'test'], not: ['--label'] },
  { typed: 'tranche docs o', offered: ['operations'], not: ['levers', 'openapi'] },
  { typed: 'tranche completion ', offered: ['bash', 'zsh', 'fish'] },
]

const SHELLS: Record<'bash' | 'zsh' | 'fish', (script: string, typed: string) => string[]> = {
  bash: (script, typed) => {
    const { words, list } = split(typed)
    const ask = `source '${script}'; COMP_WORDS=(${list}); COMP_CWORD=${words.length - 1}; _tranche
printf '%s\\n' "\${COMPREPLY[@]}"`
    return linesOf(execFileSync('bash', ['--norc', '-euc', ask], { encoding: 'utf8' }))
  },
  zsh: (script, typed) => {
    const { words, list } = split(typed)
    // Outside of a line editor completion has no effect: these functions replace the ones that would offer words.
    const ask = `compdef() { : }; _files() { : }
compadd() { shift; print -l -- "$@" }
_describe() { print -l -- "\${(@)\${(P)2}%%:*}" }
source '${script}'; words=(${list}); CURRENT=${words.length}; _tranche`
    const all = linesOf(execFileSync('zsh', ['-fc', ask], { encoding: 'utf8' }))
    return all.filter((word) => word.startsWith(words.at(-1) ?? ''))
  },
  fish: (script, typed) => {
    const ask = `source '${script}'; complete -C '${typed}'`
    const out = execFileSync('fish', ['--no-config', '-c', ask], { encoding: 'utf8' })
    return linesOf(out).map((line) => line.split('\t')[0] ?? '')
  },
}

/** The words of a line, and all of them quoted. */
function split(typed: string): { words: string[]; list: string } {
  const words = typed.split(' ')
  return { words, list: words.map((word) => `'${word}'`).join(' ') }
}

const linesOf = (text: string): string[] => text.split('\n').filter((line) => line !== '')

for (const name of ['bash', 'zsh', 'fish'] as const) {
  test(`completion in ${name}`, async (t) => {
    const folder = temporaryFolder(t)
    const script = join(folder, `tranche.${name}`)
    const { code, out } = await openShell(t).tranche(['completion', name])
    assert.equal(code, 0)
    writeFileSync(script, out)
    if (name !== 'bash' && !hasTool(t, name)) return
    for (const { typed, offered, not = [] } of CASES) {
      const got = SHELLS[name](script, typed)
      for (const word of offered) assert.ok(got.includes(word), `${typed}: ${word} is offered (${got})`)
      for (const word of not) assert.ok(!got.includes(word), `${typed}: ${word} is not offered (${got})`)
    }
  })
}
