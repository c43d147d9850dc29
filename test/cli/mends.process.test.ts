// What check says to run, run as it is printed: by a shell, whatever a plan is called and however many partners call
// one so.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { rowsOf } from '../support/database.ts'
import { CACHE, EXECUTABLE } from '../support/process.ts'
import { openShell, PLAN, succeed, USER } from '../support/service.ts'

/** The first is a plan of the other partner too. */
const NAMES = ['p1', "it's $HOME `id` p1", '--json', 'in\u200bvisible \u{e0001} \\ name']

const namesOf = (slug: string): string[] => (slug === 'acme' ? NAMES : NAMES.slice(0, 1))

test('each command shows the plan that the finding is about', async (t) => {
  const shell = openShell(t)
  for (const slug of ['acme', 'beta']) {
    await succeed(shell, 'partner', 'create', slug, '--name', slug)
    const key = (await succeed(shell, 'key', 'create', slug, '--env', 'test')).trim()
    const post = async (path: string, body: object) =>
      assert.equal((await shell.call('POST', `/partner/v1/${path}`, key, JSON.stringify(body))).status, 200)
    await post('users', USER)
    for (const partner_plan_id of namesOf(slug)) await post('plans', { ...PLAN, partner_plan_id })
  }
  const rows = await rowsOf(t, shell.file)
  await rows("update plans set status = 'cancelled'")
  const { out } = await shell.tranche(['check'])
  // Two findings about each plan, with the same command.
  const commands = [...new Set([...out.matchAll(/^ +> (tranche .*)$/gm)].map(([, command]) => command ?? ''))]
  assert.equal(commands.length, NAMES.length + 1, out)

  const script = `tranche() { "$PROGRAM" --json "$@" | tr -d '\\n'; echo; }\n${commands.join('\n')}\n`
  const env = {
    ...process.env,
    TRANCHE_TEST_STORE: undefined,
    ...CACHE,
    PROGRAM: EXECUTABLE,
    HOME: '/nobody',
  }
  const { stdout, stderr } = spawnSync('bash', ['-c', script], { env, encoding: 'utf8' })
  assert.equal(stderr, '')
  const shown = stdout
    .trim()
    .split('\n')
    .map((line) => {
      const { partner_slug, partner_plan_id } = JSON.parse(line)
      return `${partner_slug} ${partner_plan_id}`
    })
  assert.deepEqual(
    shown.sort(),
    ['acme', 'beta'].flatMap((slug) => namesOf(slug).map((name) => `${slug} ${name}`)).sort(),
  )
})
