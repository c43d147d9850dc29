// Every option of the command tree, from the flag and from its variable: the values at its bounds, its special words,
// and refusals of empty, negative and huge values. An option without a row here fails.

import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { test } from 'node:test'
import type { Option } from 'commander'
import { everyCommand } from '../../src/cli/help.ts'
import { commandTree, openShell } from '../support/service.ts'

// The values that an option accepts and refuses, by its kind.

/** Accepted words with the value each is read as, and words that are usage errors. */
type Row = { takes: [word: string, value: unknown][]; refuses: string[] }

/** A word alone is read as it is. */
const row = (takes: readonly (string | [word: string, value: unknown])[], refuses: string[]): Row => ({
  takes: takes.map((one) => (typeof one === 'string' ? [one, one] : one)),
  refuses,
})

const HUGE = '9'.repeat(30)
const NO_NUMBERS = ['-1', '1.5', '0x10', '1e3', 'NaN', 'Infinity', ' 1', HUGE, 'off', 'none', 'x']
const DAY_MS = 86_400_000

/** A whole number from `min` to `max`. */
const whole = (min: number, max: number): Row =>
  row(
    [min, max].map((number) => [String(number), number]),
    [...NO_NUMBERS, String(min - 1), String(max + 1)],
  )

const NO_TIMES = [HUGE, `${HUGE}s`, '0', '0s', '0d', '60', '-1s', '1.5h', '1w', '1 s', 's', 'none', '1S']

/** A duration of one second to `days` days; `off` where that is a word of its own. */
const time = (days: number, { off = false } = {}): Row =>
  row(
    [['1s', 1_000], ['15m', 900_000], [`${days}d`, days * DAY_MS], ...(off ? ['off'] : [])],
    [...NO_TIMES, `${days + 1}d`, `${days * 24 + 1}h`, ...(off ? ['OFF', 'null'] : ['off'])],
  )

/** A decimal that is stored as it was typed, of at most `places` places. */
const decimal = (places: number, { zero = true } = {}): Row => {
  const smallest = `0.${'1'.padStart(places, '0')}`
  return row(
    [smallest, '64250', ...(zero ? ['0'] : [])],
    ['-1', '1e3', '0x10', '1,5', '.5', HUGE, `${smallest}1`, ...(zero ? [] : ['0', '0.00'])],
  )
}

const oneOf = (...words: string[]): Row =>
  row(words, [words[0]?.toUpperCase() ?? '', '0', '-1', HUGE, 'null'])

/** Any words that are not empty: their meaning is checked later. */
const ANY_WORDS = row(['a.b', ' 0 -'], [])

/** An address and a port, or none. */
const PLACE = row(
  [
    'off',
    ['127.0.0.1:0', { host: '127.0.0.1', port: 0 }],
    ['0.0.0.0:65535', { host: '0.0.0.0', port: 65_535 }],
    ['[::1]:9090', { host: '::1', port: 9090 }],
  ],
  '9090 :9090 localhost:9090 127.0.0.1 127.1:9090 127.0.0.1:65536 ::1:9090 [::1] 127.0.0.1:'.split(' '),
)

const MONTH = row(
  ['0001-01', '1969-12', '9999-12'],
  ['0000-12', '2026-00', '2026-13', '2026-1', '202601', '-001-01', '10000-01', '2026-01-01'],
)
const TIME = row(
  [
    ['2026-01-31', Date.UTC(2026, 0, 31)],
    ['2026-01-31T08:00:00+01:00', Date.UTC(2026, 0, 31, 7)],
  ],
  ['2026-01-31T08:00:00', '2026-02-30', '2026-01', '24', '0h', '5y', 'today', '-1', '9'.repeat(30)],
)
const ENVIRONMENT = oneOf('test', 'live')
const SLUG = row(['ab', 'a'.repeat(63)], ['a', '-ab', 'AB', 'a'.repeat(64), 'a b', 'ä1'])
const REASON = row([[' a ', 'a'], 'a'.repeat(2_000)], ['a'.repeat(2_001), 'a\nb', 'a\u001bb'])
// Every option, by its kind.

/** The longest that Node's timers wait is 2^31 - 1 ms. */
const TIMER_DAYS = 24
const LIFETIME_DAYS = 36_500

const SEED = whole(0, 999_999_999)
const PRICE = decimal(8, { zero: false })

const BASIS_POINTS = row(
  [
    ['0', 0],
    ['0.25', 0.25],
    ['5000', 5_000],
  ],
  ['-1', '5000.01', '5001', '0.125', '.5', '1e3', '0x10', '1,5', ' 1', '9'.repeat(30), 'none'],
)

/** By the words of the command and the flag, or by the flag alone where it means the same everywhere. */
const ROWS: Record<string, Row> = {
  '--env': ENVIRONMENT,
  '--partner': SLUG,
  '--month': MONTH,
  '--from': MONTH,
  '--to': MONTH,
  '--year': row(['0001', '9999'], ['0000', '26', '02026', '2026-01', '-026']),
  'billing show --by': oneOf('month', 'partner'),
  '--reason': REASON,
  'execution list --since': TIME,
  'execution list --limit': whole(1, 999_999_999),
  '--price': PRICE,
  '--seed': SEED,
  '--webhook-allow-cidr': row(
    [
      ['10.0.0.0/8', ['10.0.0.0/8']],
      ['10.0.0.0/8, fd00::/8', ['10.0.0.0/8', 'fd00::/8']],
    ],
    ['none', '10.0.0.0', '10.0.0.0/8,', ',', '0', '-1'],
  ),
  '--webhook-header-prefix': row(
    ['X-Service', 'Ab', 'A'.repeat(50)],
    ['A', 'A'.repeat(51), 'A-', '-A', 'X Service', '0', 'X:'],
  ),
  '--ping': row(
    [
      ['https://a.example/b?c=d', new URL('https://a.example/b?c=d')],
      ['http://127.0.0.1:8000', new URL('http://127.0.0.1:8000')],
    ],
    ['a.example/b', 'ftp://a.example/b', 'off', 'none', '0'],
  ),
  'backup --keep': whole(1, 100_000),
  'init --scheduler': oneOf('systemd', 'cron', 'none'),
  'serve --port': whole(0, 65_535),
  'serve --tick-every': time(TIMER_DAYS, { off: true }),
  'serve --drain-limit': time(TIMER_DAYS),
  'serve --rate-limit': whole(1, 1_000_000),
  'serve --calls-per-key': whole(1, 1_000_000),
  'serve --max-connections': whole(1, 1_000_000),
  'serve --max-connections-per-address': whole(1, 1_000_000),
  'serve --log-format': oneOf('json', 'pretty'),
  'serve --sandbox-api': oneOf('on', 'off'),
  'serve --log-level': oneOf('debug', 'info', 'warn', 'error'),
  'serve --ops-listen': PLACE,
  'partner disable --last-minimum': row([...MONTH.takes, 'none'], MONTH.refuses),
  'key create --expires-in': time(LIFETIME_DAYS),
  'key rotate --overlap': time(LIFETIME_DAYS),
  'tier set --rate-bps': whole(0, 10_000),
  'tier set --min-volume-usd': decimal(2),
  'tier set --per-active-user-usd': decimal(2),
  'tier set --monthly-minimum-usd': decimal(2),
  'execution list --status': oneOf('pending', 'sent', 'filled', 'partial', 'failed', 'cancelled'),
  'execution accept-late --report': whole(1, 999_999_999),
  'execution dismiss-late --report': whole(1, 999_999_999),
  'trade adjust --usd': decimal(8),
  'trade adjust --btc': decimal(8),
  'trade record --usd': decimal(18),
  'trade record --btc': decimal(18),
  'trade record --fee': decimal(18),
  'backtest --frequency': oneOf('daily', 'weekly', 'bi-weekly'),
  'backtest --tranches': whole(1, 1_000),
  'backtest --since': TIME,
  'backtest --until': TIME,
  'backtest --fee-bps': BASIS_POINTS,
  'backtest --spread-bps': BASIS_POINTS,
  'backtest --chart': row(['a.svg'], ['-']),
  'webhook listen --forward-to': row(
    ['http://localhost:9000/hook/'],
    ['localhost:9000', 'ftp://localhost', '0', '-1'],
  ),
  'webhook listen --url': row(
    [['https://partner.example/', 'https://partner.example']],
    ['partner.example', 'ftp://partner.example', '0', '-1'],
  ),
  'webhook listen --every': time(TIMER_DAYS),
  'billing export --report': oneOf('summary', 'users', 'trades', 'adjustments', 'invoices', 'partners'),
  'billing export --format': oneOf('csv', 'json', 'hledger'),
  'billing export --delimiter': oneOf('tab', ',', ';'),
  'billing export --times': oneOf('iso', 'spreadsheet'),
  'billing invoice --format': oneOf('html', 'md', 'json'),
  'billing credit --usd': decimal(2),
  'billing reconcile --delimiter': oneOf('tab', ',', ';'),
  'billing reconcile --times': oneOf('iso', 'spreadsheet'),
  'audit --since': TIME,
  'trade record --at': TIME,
  'price remove --at': TIME,
  'audit --until': TIME,
  'audit --format': oneOf('table', 'csv'),
  'status --every': time(TIMER_DAYS),
  'health --port': whole(1, 65_535),
}

const OF_ANY_WORDS = `
  --db, execution list --order, --price-feed, --webhook-ca, copy --from, copy --to, init --name,
  serve --host, serve --tls-cert, serve --tls-key, serve --ops-token-file, partner create --name,
  key create --label, execution accept-late --plan, execution accept-late --idempotency-key,
  trade record --plan, trade record --idempotency-key, trade record --order, webhook listen --key-file,
  webhook listen --secret-file, webhook verify --signature, webhook verify --secret-file,
  billing export --settings, billing export --output, billing invoice --settings, billing invoice --number,
  billing invoice --output-dir, billing issue --settings, billing credit --settings,
  billing reconcile --against, billing reconcile --column-order, billing reconcile --column-usd,
  billing reconcile --column-btc, billing reconcile --column-fee, billing reconcile --column-plan,
  billing invoice --output, docs --examples, docs --deploy, health --url`.split(/,\s+/)
for (const name of OF_ANY_WORDS) ROWS[name.trim()] = ANY_WORDS

/** The arguments of the commands that want one. */
const ARGUMENTS: Record<string, string> = {
  slug: 'acme',
  time: '7d',
  usd: '5.00',
  shell: 'bash',
  topic: 'api',
}

type Place = { path: readonly string[]; option: Option; row: Row; name: string }

const places: Place[] = []
const unknown: string[] = []
const known = new Set<string>()
const commands: { path: readonly string[]; arguments: string[] }[] = []
everyCommand(commandTree(), (command, path) => {
  commands.push({ path, arguments: command.registeredArguments.map((argument) => argument.name()) })
  for (const option of command.options.filter(({ required, optional }) => required || optional)) {
    const name = [...path, option.long].join(' ')
    const row = ROWS[name] ?? ROWS[option.long ?? '']
    if (row) places.push({ path, option, row, name })
    else unknown.push(name)
    known.add(name).add(option.long ?? '')
  }
})

test('every option that takes a value has a row, and every row an option', () => {
  assert.ok(places.length > 60, `${places.length} options`)
  const gone = Object.keys(ROWS).filter((name) => !known.has(name))
  assert.deepEqual([unknown, gone], [[], []])
})

/** The words before an option: its command, its arguments, and the other options that command cannot do without. */
function lineBefore({ path, option }: Pick<Place, 'path' | 'option'>): string[] {
  const own = commands.find((one) => one.path === path)?.arguments ?? []
  const others = places.filter(
    (place) => place.path === path && place.option.mandatory && place.option !== option,
  )
  return [
    ...path,
    ...own.map((name) => ARGUMENTS[name] ?? 'x'),
    ...others.map(({ option: other, row }) => `${other.long}=${row.takes[0]?.[0]}`),
  ]
}

/** Answers the value that the command of a line receives for an option; the command does nothing else. */
function readerOf({ path, option }: Place): (line: string[]) => Promise<unknown> {
  const program = commandTree()
  let read: unknown
  everyCommand(program, (command, its) => {
    if (its.join(' ') === (path.length === 0 ? 'version' : path.join(' ')))
      command.action(() => {
        read = command.optsWithGlobals()[option.attributeName()]
      })
  })
  return async (line) => {
    read = undefined
    await program.parseAsync(path.length === 0 ? [...line, 'version'] : line, { from: 'user' })
    return read
  }
}

/** Runs with one variable set: the parser reads no environment but this process's own. */
async function withVariable<T>(name: string, value: string, run: () => Promise<T>): Promise<T> {
  process.env[name] = value
  try {
    return await run()
  } finally {
    delete process.env[name]
  }
}

for (const place of places) {
  const { option, row, name } = place
  const { long = '', envVar } = option

  test(`${name} takes its words`, async () => {
    const read = readerOf(place)
    for (const [word, value] of row.takes) {
      const line = lineBefore(place)
      assert.deepEqual(await read([...line, `${long}=${word}`]), value, word)
      if (envVar === undefined) continue
      assert.deepEqual(await withVariable(envVar, word, () => read(line)), value, `${envVar}=${word}`)
    }
  })

  test(`${name} refuses what is empty and what is out of bounds`, async (t) => {
    const shell = openShell(t)
    // Every command line of the shell begins with --db.
    if (long === '--db') return
    for (const word of ['', '\t', ...row.refuses]) {
      const line = [...lineBefore(place)]
      const flag = await shell.tranche([...line, `${long}=${word}`])
      assert.deepEqual([flag.code, flag.out], [2, ''], `${long}=${word}`)
      assert.ok(flag.err.includes(`'${option.flags}'`), flag.err)
      if (envVar === undefined) continue
      const variable = await withVariable(envVar, word, () => shell.tranche(line))
      assert.deepEqual([variable.code, variable.out], [2, ''], `${envVar}=${word}`)
      assert.ok(variable.err.includes(`'${envVar}'`), variable.err)
    }
    assert.deepEqual(readdirSync(shell.folder), [])
  })
}

test('--db and TRANCHE_DB are not empty', async (t) => {
  const shell = openShell(t)
  for (const word of ['', ' ']) {
    assert.equal((await shell.tranche(['status', `--db=${word}`])).code, 2)
    const parsed = withVariable('TRANCHE_DB', word, () =>
      commandTree().parseAsync(['version'], { from: 'user' }),
    )
    await assert.rejects(parsed, /TRANCHE_DB.*must not be empty/)
  }
})

test('variables that stand for no option are not empty either', async (t) => {
  const shell = openShell(t)
  for (const name of ['TRANCHE_CACHE', 'TRANCHE_WEBHOOK_SECRET']) {
    const { code, out, err } = await shell.tranche(['version'], { env: { [name]: ' ' } })
    assert.deepEqual([code, out, err], [2, '', `error: ${name} must not be empty.\n`])
  }
})

test('an argument is not empty either', async (t) => {
  const shell = openShell(t)
  for (const { path, arguments: own } of commands) {
    for (const [at] of own.entries()) {
      const line = lineBefore({ path, option: {} as Option })
      line[path.length + at] = ''
      const { code, out, err } = await shell.tranche(line)
      assert.deepEqual([code, out], [2, ''], line.join(' '))
      assert.notEqual(err, '')
    }
  }
  assert.deepEqual(readdirSync(shell.folder), [])
})
