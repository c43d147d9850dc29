// Texts of partners, in every command that shows them: they hide, reorder or forge nothing that an operator reads, and
// JSON has them exactly.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { everyCommand } from '../../src/cli/help.ts'
import { drawScreen } from '../../src/cli/service/status-screen.ts'
import { openAgain, rowsOf } from '../support/database.ts'
import { CACHE, EXECUTABLE } from '../support/process.ts'
import { commandTree, listen, openShell, PLAN, type Shell, succeed, USER } from '../support/service.ts'

/** Reversed, zero-width, filler and tag characters: each is a letter to a program, and nothing to a reader. */
const UNSEEN = '\u202e\u200b\u2066\ufeff\u3164\u{e0041}'
const SPELLED = '\\u202e\\u200b\\u2066\\ufeff\\u3164\\u{e0041}'
const mark = (name: string): string => `${name}${UNSEEN}`
const FORGED = `venue closed\n\ttrade_status  filled\nstatus  filled${UNSEEN}`
const HIDDEN = /[\p{Cf}\p{Zl}\p{Zp}\u3164]|[^\P{Cc}\n]/u

const MARKED_USER = {
  ...USER,
  partner_user_id: mark('user'),
  email: `${mark('mail')}@example.org`,
  auth_provider: mark('provider'),
  consent_version: mark('consent'),
}

type Staged = { shell: Shell; late: string; failed: string; filled: string }

/** A partner that writes such text into every field it can. */
async function stage(shell: Shell): Promise<Staged> {
  await shell.tranche(['partner', 'create', 'acme', '--name', 'Acme'])
  const key = (await shell.tranche(['key', 'create', 'acme', '--env', 'test'])).out.trim()
  const call = (method: string, path: string, body?: object) => shell.ask(key, method, path, body)
  assert.equal((await call('POST', 'users', MARKED_USER)).status, 200)
  for (const name of ['late', 'failed', 'filled']) {
    const plan = { partner_user_id: MARKED_USER.partner_user_id, partner_plan_id: mark(name) }
    assert.equal((await call('POST', 'plans', { ...PLAN, ...plan })).status, 200)
  }
  await shell.tranche(['tick', '--price', '60000'])
  const due: { execution_id: string; partner_plan_id: string }[] = (await call('GET', 'executions/due')).body
  const idOf = (name: string) => due.find((one) => one.partner_plan_id === mark(name))?.execution_id ?? ''
  const confirm = (name: string, report: object) => call('POST', `executions/${idOf(name)}/confirm`, report)
  const amounts = { usd_amount: '10.00', btc_amount: '0.00016666', execution_price: '60002.40' }
  const fill = { status: 'filled', ...amounts }
  const failure = { status: 'failed', failure_reason: FORGED }
  assert.equal((await confirm('failed', { partner_order_id: mark('o1'), ...failure })).status, 200)
  assert.equal((await confirm('filled', { partner_order_id: mark('o2'), ...fill })).status, 200)
  await shell.tranche(['execution', 'cancel', idOf('late'), '--reason', 'x'])
  assert.equal((await confirm('late', { partner_order_id: mark('o3'), ...fill })).status, 409)
  return { shell, late: idOf('late'), failed: idOf('failed'), filled: idOf('filled') }
}

type Line = [argv: string[], exact: string | null]
const RECORD = 'trade record --partner acme --usd 9 --btc 0.00015 --reason x --order o9 --plan'

/**
 * Every command that shows foreign text, and the text that its JSON must hold. The order matters: some change what the
 * next ones show. `hostile` is a service, a feed and a receiver, with such text wherever it can be.
 */
function linesFor({ shell, late, failed, filled }: Staged, hostile: string): Line[] {
  const user = MARKED_USER.partner_user_id
  const of = ['acme', '--env', 'test']
  const file = (name: string): string => join(shell.folder, mark(name))
  const feed = `${hostile}/feed#/price`
  return [
    [['user', 'list', ...of], user],
    [['user', 'show', 'acme', user, '--env', 'test'], MARKED_USER.consent_version],
    [['user', 'show', 'acme', mark('nobody'), '--env', 'test'], null],
    [['plan', 'list'], mark('late')],
    [['plan', 'show', mark('late')], user],
    [['plan', 'show', mark('nothing')], null],
    [['plan', 'show', mark('--option')], null],
    [['plan', 'bring-back'], null],
    [['execution', 'list'], mark('late')],
    [['execution', 'show', failed], FORGED],
    [['execution', 'show', filled], mark('o2')],
    [['execution', 'late-fills'], mark('o3')],
    [['execution', 'dismiss-late', late, '--reason', mark('dismissed')], null],
    [['execution', 'late-fills'], mark('o3')],
    [['execution', 'accept-late', late, '--report', '1'], null],
    [['execution', 'cancel', filled, '--reason', mark('why')], null],
    [['execution', 'show', late], mark('o3')],
    [['trade', 'adjust', filled, '--usd', '9', '--btc', '0.00015', '--reason', mark('because')], null],
    [['execution', 'show', filled], mark('because')],
    [['tick', '--dry-run', '--price', '60000'], null],
    [['tick', '--price-feed', feed], null],
    [['sandbox', 'fire', 'acme', mark('filled')], mark('filled')],
    [['sandbox', 'fire', 'acme', mark('nothing')], null],
    [['sandbox', 'advance', 'acme', '2d'], null],
    [['check'], null],
    [['billing', 'show', '--month', '2026-01'], null],
    [['billing', 'adjustments', '--partner', 'acme', '--month', '2026-01', '--env', 'test'], mark('because')],
    [['billing', 'invoice', '--partner', 'acme', '--month', '2026-01', '--format', 'md'], null],
    [['billing', 'reconcile', '--month', '2026-01'], null],
    [['billing', 'issue', '--month', '2026-01', '--settings', file('billing.json')], null],
    [['billing', 'issued', '--month', '2026-01'], null],
    [['billing', 'credit', mark('R-1'), '--usd', '1', '--reason', 'x', '--settings', file('b.json')], null],
    [['billing', 'export', '--month', '2026-01', '--output', file('export.csv'), '--force'], null],
    [['freeze', '--reason', mark('why frozen')], null],
    [['status'], mark('why frozen')],
    [['resume', '--yes'], null],
    [['status'], null],
    [['user', 'erase', 'acme', user, '--env', 'test', '--yes'], user],
    [['audit'], mark('because')],
    [['sandbox', 'reset', 'acme', '--yes'], null],
    [['webhook', 'show', ...of], null],
    [['webhook', 'resume', ...of], null],
    [['webhook', 'test', ...of, '--webhook-allow-cidr', '127.0.0.0/8'], null],
    [['webhook', 'listen', '--forward-to', hostile, '--key-file', file('key'), '--url', hostile], null],
    [['webhook', 'verify', '--signature', mark('sha256='), '--secret-file', file('nothing')], null],
    [['price', 'fetch', '--price-feed', feed], null],
    [['price', 'import', file('prices.csv')], null],
    [['price', 'list'], null],
    [['price', 'remove', '--at', '2026-01-05T00:00:00Z'], null],
    [['backtest', file('prices.csv')], null],
    [[...RECORD.split(' '), mark('no')], null],
    [['backup', file('copy.db'), '--force'], mark('copy.db')],
    [['copy', '--to', file('copied.db')], null],
    [['restore', file('no-copy.db')], null],
    [['migrate', '--status'], null],
    [['health', '--url', hostile], null],
    ...accountLines(),
  ]
}

/** An operator's text is shown to the next operator. */
function accountLines(): Line[] {
  const named = mark('Beta')
  return [
    [['partner', 'create', 'beta', '--name', named], null],
    [['partner', 'list'], named],
    ...['show', 'hold', 'release', 'disable', 'enable'].map(
      (verb): Line => [['partner', verb, 'beta'], named],
    ),
    [['partner', 'set-tier', 'beta', mark('tier')], null],
    [['partner', 'set-min-tranche', 'beta', '20.00'], named],
    [['key', 'create', 'beta', '--env', 'test', '--label', mark('label')], null],
    [['key', 'list', 'beta'], mark('label')],
    [['key', 'rotate', mark('key_')], null],
    [['key', 'revoke', mark('key_')], null],
    [['tier', 'set', mark('tier'), '--rate-bps', '10'], null],
    [['tier', 'list'], null],
  ]
}

/** Commands that print only built-in text, and serve, whose log is tested below. */
const WITHOUT = ['serve', 'openapi', 'completion', 'version', 'demo', 'docs', 'init']

/** A service, a feed and a receiver that put such text wherever they can. */
async function startHostile(t: TestContext): Promise<string> {
  let polls = 0
  const due = { execution_id: mark('exec_1'), partner_plan_id: mark('plan'), amount_usd: '10.00' }
  const answers: Record<string, () => unknown> = {
    '/partner/v1/me': () => ({ partner_slug: 'acme', environment: 'test', partner_name: mark('Acme') }),
    '/partner/v1/executions/due': () => (polls++ % 2 === 0 ? [due] : []),
    '/feed': () => ({ price: mark('60000') }),
  }
  const server = createServer(({ url = '' }, response) => {
    response.statusMessage = 'closed \x9b31m'
    response.end(JSON.stringify(answers[url]?.() ?? { detail: mark(FORGED) }))
  })
  const { port } = await listen(t, server)
  return `http://127.0.0.1:${port}`
}

test('foreign text is spelled out in words and exact as JSON, in every command that shows it', async (t) => {
  const staged = await stage(openShell(t))
  const { shell, failed } = staged
  writeFileSync(join(shell.folder, mark('prices.csv')), `time,price\n${mark('2026')},\u001b[31m1\n`)
  writeFileSync(join(shell.folder, mark('key')), `sse_test_${'a'.repeat(46)}\n`)
  const shown = (await shell.tranche(['execution', 'show', failed])).out
  for (const [argv, exact] of linesFor(staged, await startHostile(t))) {
    const line = argv.join(' ')
    const words = await shell.tranche(argv)
    for (const text of [words.out, words.err]) assert.doesNotMatch(text, HIDDEN, `${line}: ${text}`)
    assert.notEqual(words.out + words.err, '', line)
    assert.doesNotMatch(words.out, /^\s*(trade_)?status {2}filled\\u202e/m, line)
    if (exact === null) continue
    assert.ok(words.out.includes(SPELLED), `${line}: ${words.out}${words.err}`)
    const json = await shell.tranche([...argv, '--json'])
    assert.ok(deepText(JSON.parse(json.out)).includes(exact), line)
  }
  assert.match(
    shown,
    /^trade_failure_reason +venue closed\\n\\ttrade_status \\u0020filled\\nstatus \\u0020filled\\u202e/m,
  )
})

test('every command there is has been asked for foreign text, or has none to show', async (t) => {
  const staged = { shell: openShell(t), late: '', failed: '', filled: '' }
  const asked = linesFor(staged, '').map(([argv]) => argv)
  const isAsked = (path: readonly string[]) => asked.some((argv) => path.every((word, i) => argv[i] === word))
  const others: string[] = []
  everyCommand(commandTree(), (command, path) => {
    if (path.length > 0 && command.commands.length === 0 && !isAsked(path)) others.push(path.join(' '))
  })
  assert.deepEqual(others.sort(), [...WITHOUT].sort())
})

test('the screen of status --watch shows foreign text spelled out', async (t) => {
  const { shell } = await stage(openShell(t))
  const store = await openAgain(shell.file, shell.machine.clock)
  t.after(() => store.close())
  const at = shell.machine.clock()
  const stock = await store.takeStock(at)
  const vitals = await store.readVitals(at, stock)
  const price = vitals.price && { ...vitals.price, source: mark('source') }
  const down = { since: at, reason: mark('reason') }
  const seen = {
    at,
    db: mark('a.db'),
    self: 'tranche',
    everyMs: 2_000,
    stock,
    vitals: { ...vitals, price, feed: { name: mark('feed'), askedAt: at, down } },
    recent: await store.readRecent({ passes: 60, executions: 40 }),
    backlog: await store.readBacklog(at),
    sandboxes: await store.listSandboxes(),
    walBytes: await store.walBytes(),
  }
  const plain = (_: unknown, text: string) => text
  const lines = drawScreen(seen, { columns: 200, rows: 60, paint: plain, trouble: mark('trouble') })
  const text = lines.join('\n')
  assert.doesNotMatch(text, HIDDEN)
  for (const name of ['late', 'source', 'a.db', 'trouble', 'feed', 'reason'])
    assert.ok(text.includes(`${name}\\u202e`), name)
})

test('pretty logs spell foreign text out, JSON logs have it exactly', () => {
  const script = `
    import { createLog } from './src/log.ts'
    const text = ${JSON.stringify(mark('plan'))}
    for (const format of ['pretty', 'json']) {
      const log = createLog(format, () => 0)
      log.warn({ text, deep: [{ text }] }, text + '\\nforged line')
      log.error({ err: new Error(text) }, 'failed')
    }`
  const options = { cwd: join(import.meta.dirname, '../..'), env: { ...process.env, ...CACHE } }
  const flags = ['--input-type=module', '--eval', script]
  const { stderr } = spawnSync(process.execPath, flags, { ...options, encoding: 'utf8' })
  const lines = stderr.trimEnd().split('\n')
  const [pretty, json] = [lines.slice(0, -2).join('\n'), lines.slice(-2).join('\n')]
  assert.doesNotMatch(pretty, HIDDEN)
  assert.doesNotMatch(pretty, /^forged line/m)
  assert.equal(pretty.split(SPELLED).length - 1 >= 4, true, pretty)
  assert.equal(JSON.parse(lines.at(-2) ?? '').msg, `${mark('plan')}\nforged line`)
  assert.ok(json.includes(UNSEEN))
})

/** Every text of a JSON document, one after the other. */
const deepText = (value: unknown): string =>
  typeof value === 'object' && value !== null
    ? Object.values(value).map(deepText).join('\u0001')
    : String(value)

// The commands that check suggests, run by a shell exactly as printed, whatever a plan is called and however many
// partners use the same name.

/** The first is a plan of the other partner too. */
const NAMES = ['p1', "it's $HOME `id` p1", '--json', 'in\u200bvisible \u{e0001} \\ name']

const namesOf = (slug: string): string[] => (slug === 'acme' ? NAMES : NAMES.slice(0, 1))

test('each command shows the plan that the finding is about', async (t) => {
  const shell = openShell(t)
  for (const slug of ['acme', 'beta']) {
    await succeed(shell, 'partner', 'create', slug, '--name', slug)
    const key = (await succeed(shell, 'key', 'create', slug, '--env', 'test')).trim()
    await shell.ask(key, 'POST', 'users', USER)
    for (const partner_plan_id of namesOf(slug))
      assert.equal((await shell.ask(key, 'POST', 'plans', { ...PLAN, partner_plan_id })).status, 200)
  }
  const rows = await rowsOf(t, shell.file)
  await rows("update plans set status = 'cancelled'")
  const { out } = await shell.tranche(['check'])
  // Two findings about each plan, with the same command.
  const commands = [...new Set([...out.matchAll(/^ +> (tranche .*)$/gm)].map(([, command]) => command ?? ''))]
  assert.equal(commands.length, NAMES.length + 1, out)

  const script = `tranche() { "$PROGRAM" --json "$@" | tr -d '\\n'; echo; }\n${commands.join('\n')}\n`
  const own = { TRANCHE_TEST_STORE: undefined, PROGRAM: EXECUTABLE, HOME: '/nobody' }
  const env = { ...process.env, ...CACHE, ...own }
  const { stdout, stderr } = spawnSync('bash', ['-c', script], { env, encoding: 'utf8' })
  assert.equal(stderr, '')
  const shown = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  const plans = shown.map(({ partner_slug, partner_plan_id }) => `${partner_slug} ${partner_plan_id}`)
  const expected = ['acme', 'beta'].flatMap((slug) => namesOf(slug).map((name) => `${slug} ${name}`))
  assert.deepEqual(plans.sort(), expected.sort())
})
