// The completion scripts, each in the shell it is for.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../support/database.ts'
import { openShell } from '../support/service.ts'
import { hasTool } from '../support/tools.ts'

/** What is typed, up to the cursor, and what must and must not be offered. */
const CASES: { typed: string; offered: string[]; not?: string[] }[] = [
  { typed: 'tranche par', offered: ['partner'], not: ['key', '--json'] },
  { typed: 'tranche ', offered: ['serve', 'tick', 'billing', 'completion'], not: ['create'] },
  { typed: 'tranche partner ', offered: ['create', 'list', 'set-tier'], not: ['serve', 'rotate'] },
  { typed: 'tranche --db x.db key ', offered: ['create', 'rotate', 'revoke'], not: ['serve', 'x.db'] },
  { typed: 'tranche --db partner key ro', offered: ['rotate'], not: ['create'] },
  {
    typed: 'tranche key create acme --',
    offered: ['--env', '--label', '--json', '--help'],
    not: ['--overlap'],
  },
  { typed: 'tranche key create acme --env ', offered: ['live', 'test'], not: ['--label'] },
  { typed: 'tranche billing export --report t', offered: ['trades'], not: ['summary', 'users'] },
  { typed: 'tranche docs o', offered: ['operations'], not: ['levers', 'openapi'] },
  { typed: 'tranche completion ', offered: ['bash', 'zsh', 'fish'] },
]

const SHELLS: Record<'bash' | 'zsh' | 'fish', (script: string, typed: string) => string[]> = {
  bash: (script, typed) => {
    const words = typed.split(' ')
    const list = words.map((word) => `'${word}'`).join(' ')
    const ask = `source '${script}'; COMP_WORDS=(${list}); COMP_CWORD=${words.length - 1}; _tranche
printf '%s\\n' "\${COMPREPLY[@]}"`
    return linesOf(execFileSync('bash', ['--norc', '-euc', ask], { encoding: 'utf8' }))
  },
  zsh: (script, typed) => {
    const words = typed.split(' ')
    const list = words.map((word) => `'${word}'`).join(' ')
    // Outside of a line editor there is nothing to offer words to: these take the place of what would.
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

test('with --json the script is a field of the one document', async (t) => {
  const shell = openShell(t)
  const { out } = await shell.tranche(['completion', 'fish', '--json'])
  const script = (await shell.tranche(['completion', 'fish'])).out
  assert.deepEqual(JSON.parse(out), { shell: 'fish', script: script.trimEnd() })
})

test('a shell for which there is no script', async (t) => {
  const { code, err } = await openShell(t).tranche(['completion', 'tcsh'])
  assert.equal(code, 2)
  assert.match(err, /bash, zsh, fish/)
})
