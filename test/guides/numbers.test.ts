// The guides against the constants and the files: every number is right, and every name exists.

import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import { WEEKS } from '../../src/cli/demo/play.ts'
import { CONNECTIONS_MAX, DESCRIPTORS_KEPT } from '../../src/cli/service/serve.ts'
import { PLAN_USD_A_YEAR } from '../../src/cli/trial/verdict.ts'
import { GAPS_ALLOWED, GRACE_MS } from '../../src/core/clock.ts'
import { DUE_PAGE_MAX, LEASE_MS } from '../../src/core/execution.ts'
import {
  DISK_FREE_MIN,
  DUE_LATE_MS,
  FAILED_ORDERS_MIN,
  FAILURES_TO_WARN,
  FEED_PASSES_SEEN,
  KEY_ENDS_WITHIN_DAYS,
  ORDERS_SEEN_MS,
  SILENT_MAX_MS,
  STUCK_DELIVERIES,
  UNSPENT_DAYS,
  WAL_LARGE_BYTES,
} from '../../src/core/findings.ts'
import { formatUsd, price, priceAsNumber, usd } from '../../src/core/money.ts'
import { MIN_TRANCHE_DEFAULT } from '../../src/core/partner.ts'
import {
  GAP_MAX_MS,
  HALF_LIFE_HOURS,
  PRICE_LIVE_MS,
  SIGMA_DEFAULT,
  SPACING_MIN_MS,
} from '../../src/core/price.ts'
import { ADVANCE_MAX_MS, EXACT_PLANS_MAX, WIPE_ROWS_MAX } from '../../src/core/sandbox.ts'
import { HOUR_MS, type Instant, MINUTE_MS, SECOND_MS } from '../../src/core/time.ts'
import { FAILURES_TO_PAUSE, WEBHOOK_URL_MAX } from '../../src/core/webhook.ts'
import {
  EXTRA_SPACING_MS,
  EXTRA_TRANCHES_MAX,
  FAILSAFE_LEAD_MIN_MS,
  FREQUENCIES,
  PASS_GAPS_SEEN,
  WINDOW_MS,
} from '../../src/core/window.ts'
import { layout, reservationPrice, slotMsOf } from '../../src/engine/slot-reserve.ts'
import { PARTNERS_NAMED } from '../../src/http/ops/metrics.ts'
import { PROBE_TIMEOUT_MS } from '../../src/http/ops/readiness.ts'
import { BODY_BYTES_MAX } from '../../src/http/request.ts'
import { OUTLIER_SHARE, SOURCES_MIN } from '../../src/price/feed.ts'
import { FETCH_TIMEOUT_MS } from '../../src/price/fetch.ts'
import { RESOLVE_TIMEOUT_MS } from '../../src/webhook/address-guard.ts'
import { CONNECT_TIMEOUT_MS, TOTAL_TIMEOUT_MS } from '../../src/webhook/send.ts'
import { IN_PARALLEL_MAX } from '../../src/webhook/wake-partners.ts'
import { blocksOf } from '../support/samples.ts'

const ROOT = join(import.meta.dirname, '../..')

/** The guides as running text, lines joined. */
const GUIDES = new Map(
  globSync(['README.md', 'docs/*.md'], { cwd: ROOT }).map((file) => [
    file,
    readFileSync(join(ROOT, file), 'utf8').replace(/\s+/g, ' '),
  ]),
)

/** A statement, its number, and the guides that make it. Any other guide that makes it is checked as well. */
const SAID: [what: RegExp, number: number, guides: string[]][] = [
  [/leased to you for (\S+) minutes/g, LEASE_MS / MINUTE_MS, ['api']],
  [/leases \| They last (\S+) minutes/g, LEASE_MS / MINUTE_MS, ['sandbox']],
  [/With more than (\S+) plans in the environment/g, EXACT_PLANS_MAX, ['sandbox']],
  [/the advance takes more than (\S+) minutes/g, ADVANCE_MAX_MS / MINUTE_MS, ['sandbox']],
  [/One with more than (\S+) rows is refused/g, WIPE_ROWS_MAX, ['sandbox']],
  [/poll delivers at most (\d+)/g, DUE_PAGE_MAX, ['api']],
  [/`body_too_large` \| 413 \| send at most (\S+) KiB/g, BODY_BYTES_MAX / 1024, ['api']],
  [/At the (\S+) failure in a row/g, FAILURES_TO_WARN, ['webhooks']],
  [/(?<!At the )\b(\w+) failures? in a row/g, FAILURES_TO_PAUSE, ['monitoring', 'webhooks']],
  [/after (\S+) it is paused/g, FAILURES_TO_PAUSE, ['reference']],
  [/key expires within (\S+) days/gi, KEY_ENDS_WITHIN_DAYS, ['reference']],
  [/delivered (\S+) times/gi, STUCK_DELIVERIES, ['reference']],
  [/at most (\S+) characters long, without a user name/g, WEBHOOK_URL_MAX, ['webhooks']],
  [/You have (\S+) seconds in all/g, TOTAL_TIMEOUT_MS / SECOND_MS, ['webhooks']],
  [/takes its (\S+) seconds/g, TOTAL_TIMEOUT_MS / SECOND_MS, ['webhooks']],
  [/(\S+) of them to connect/g, CONNECT_TIMEOUT_MS / SECOND_MS, ['webhooks']],
  [/(\S+) deliveries run in parallel/g, IN_PARALLEL_MAX, ['webhooks']],
  [/never answers gets (\S+) seconds/g, RESOLVE_TIMEOUT_MS / SECOND_MS, ['webhooks']],
  [
    /at least (\S+) minutes before the end, and at least twice the second-longest/g,
    FAILSAFE_LEAD_MIN_MS / MINUTE_MS,
    ['engine'],
  ],
  [/the last (\S+) gaps between ticks/g, PASS_GAPS_SEEN, ['engine']],
  [/up to (\S+) more tries/g, EXTRA_TRANCHES_MAX, ['engine']],
  [/failsafe span, (\S+) minutes apart/g, EXTRA_SPACING_MS / MINUTE_MS, ['engine']],
  [/no price younger than (\S+) minutes/g, PRICE_LIVE_MS / MINUTE_MS, ['engine']],
  [/half-life of (\S+) hours/g, HALF_LIFE_HOURS, ['engine']],
  [/prices at least (\S+) minutes apart/g, SPACING_MIN_MS / MINUTE_MS, ['engine']],
  [/skips gaps of more than (\S+) hours/g, GAP_MAX_MS / HOUR_MS, ['engine']],
  [/(\S+) % per square root of an hour/g, SIGMA_DEFAULT * 100, ['engine']],
  [/at least (\S+) fresh ones/g, SOURCES_MIN, ['engine']],
  [/more than (\S+) % off/g, OUTLIER_SHARE * 100, ['engine']],
  [/Each source has (\S+) seconds/g, FETCH_TIMEOUT_MS / SECOND_MS, ['engine']],
  [/minimum tranche \((\S+) USD unless set/g, Number(formatUsd(MIN_TRANCHE_DEFAULT)), ['engine']],
  [/more than (\S+) minutes plus/g, GRACE_MS / MINUTE_MS, ['reference']],
  [/plus (\S+) of its usual gaps/g, GAPS_ALLOWED, ['reference']],
  [/due for more than (\S+) minutes/g, DUE_LATE_MS / MINUTE_MS, ['reference']],
  [/not polled for (\S+) minutes although/g, DUE_LATE_MS / MINUTE_MS, ['reference']],
  [/or for (\S+) hours although its plans/g, SILENT_MAX_MS / HOUR_MS, ['reference']],
  [/(\S+) or more of a partner's orders failed/g, FAILED_ORDERS_MIN, ['reference']],
  [/orders failed in the last (\S+) hours/g, ORDERS_SEEN_MS / HOUR_MS, ['reference']],
  [/Less than (\S+) % of the disk/g, DISK_FREE_MIN * 100, ['reference']],
  [/finding goes after (\S+) ticks/g, FEED_PASSES_SEEN, ['levers']],
  [/At most (\S+) partners have them/g, PARTNERS_NAMED, ['monitoring']],
  [/log is larger than (\S+) MiB/g, WAL_LARGE_BYTES / 2 ** 20, ['reference']],
  [/in the last (\S+) days with money/g, UNSPENT_DAYS, ['reference']],
  [/holds the lock for more than (\S+) seconds/g, PROBE_TIMEOUT_MS / SECOND_MS, ['monitoring']],
  [/the demo: (\S+) weeks/g, WEEKS, ['README']],
]

for (const [what, number, guides] of SAID) {
  test(`the guides say ${number} in: ${what.source}`, () => {
    const said = [...GUIDES].flatMap(([file, text]) =>
      [...text.matchAll(what)].map(([, word = '']) => ({ guide: file.replace(/^docs\/|\.md$/g, ''), word })),
    )
    for (const { guide, word } of said) assert.equal(numberOf(word), number, `${guide} says ${word}`)
    assert.deepEqual([...new Set(said.map(({ guide }) => guide))].sort(), guides)
  })
}

const ENGINE = GUIDES.get('docs/engine.md') ?? ''

test('the table of windows, slots and units is the one that is played', () => {
  assert.ok(ENGINE.includes('| frequency | window | slot | slots | units in a slot | units |'))
  for (const frequency of FREQUENCIES) {
    const windowEnd = WINDOW_MS[frequency] as Instant
    const slotMs = slotMsOf(windowEnd)
    const plenty = {
      windowStart: 0 as Instant,
      windowEnd,
      budget: usd('1000000'),
      floor: MIN_TRANCHE_DEFAULT,
    }
    const { slots, unitsPerSlot } = layout(plenty)
    const cells = [frequency, `${windowEnd / HOUR_MS} h`, `${slotMs / HOUR_MS} h`, slots, unitsPerSlot]
    const row = `| ${[...cells, slots * unitsPerSlot].join(' | ')} |`
    assert.ok(ENGINE.includes(row), row)
  }
})

test('the formula of the reservation price is the one that is played, with m from 0', () => {
  const formula = 'Of `k` units, numbered from `m = 0`, unit `m` fires at the first price at or below'
  assert.ok(ENGINE.includes(formula) && ENGINE.includes('`ref exp(hw (1 - 2 (1 + 1/k)^(m-k)))`'))
  const [ref, hw] = [price('50000'), 0.03]
  for (const k of [1, 2, 3])
    for (let m = 0; m < k; m++) {
      const wanted = 50_000 * Math.exp(hw * (1 - 2 * (1 + 1 / k) ** (m - k)))
      const played = priceAsNumber(reservationPrice({ price: ref, halfWidth: hw }, m, k))
      assert.ok(Math.abs(played - wanted) < 0.001, `unit ${m} of ${k}: ${played}, not ${wanted}`)
    }
  // "one fires at once, and one fires if the price falls by about a third of the band"
  const [first, second] = [0, 1].map((m) => reservationPrice({ price: ref, halfWidth: hw }, m, 2))
  assert.ok((first ?? 0n) >= ref)
  assert.ok(Math.abs(1 - priceAsNumber(second ?? ref) / 50_000 - hw / 3) < 0.001)
})

test('the limit on connections is the one that is kept', () => {
  const most = `minus ${DESCRIPTORS_KEPT}, which are kept for the database and for outgoing calls, ${CONNECTIONS_MAX.toLocaleString('en')} at most`
  assert.ok(GUIDES.get('docs/reference.md')?.includes(most), most)
})

test('all texts say the same of a new column: a report keeps its own, and the column is in a new version', () => {
  const texts = [
    'README.md',
    'docs/architecture.md',
    'docs/billing.md',
    'docs/compatibility.md',
    'docs/decisions/months.md',
    'src/billing/columns.ts',
  ]
  for (const file of texts) {
    const text = readFileSync(join(ROOT, file), 'utf8').replace(/\s+(?:\/\/ )?/g, ' ')
    assert.match(text, /new column (?:is|makes) a new version/, file)
    assert.doesNotMatch(
      text,
      /columns? (?:is|are) (?:only ever )?added at the end|may add columns|new ones come/i,
      file,
    )
  }
})

test('a number is read as a figure, a word or an ordinal', () => {
  assert.deepEqual(['64', '0.5', '1,000', 'ten', 'Fifty', 'tenth', 'many'].map(numberOf), [
    64,
    0.5,
    1000,
    10,
    50,
    10,
    NaN,
  ])
})

const WORDS = 'zero one two three four five six seven eight nine ten eleven twelve'.split(' ')
const ORDINALS = { fifth: 'five', tenth: 'ten' }
const TENS = { fifteen: 15, twenty: 20, thirty: 30, fifty: 50 }

function numberOf(text: string): number {
  const word = text.toLowerCase()
  const spelled = WORDS.indexOf(ORDINALS[word as keyof typeof ORDINALS] ?? word)
  return spelled >= 0 ? spelled : (TENS[word as keyof typeof TENS] ?? Number(word.replaceAll(',', '')))
}

// Statements of the guides about the backtest, against its tables: the prices behind those are not in the repository.

const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8')
const readPlain = (file: string): string => read(file).replaceAll('\u2212', '-')
const joined = (text: string): string => text.replace(/\s+/g, ' ')

const PAGE = readPlain('docs/backtest.md')
const BACKTEST = joined(PAGE)
const TIMING = joined(readPlain('docs/engine.md'))

/** The cells of the rows under a heading, by the titles of its table. */
function tableUnder(heading: string): Record<string, string>[] {
  const section = PAGE.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? ''
  const [titles = [], , ...rows] = section
    .split('\n')
    .filter((line) => line.startsWith('|'))
    .map((line) => line.split('|').map((cell) => cell.trim()))
  return rows.map((row) => Object.fromEntries(row.map((cell, i) => [titles[i], cell])))
}

const POLICY = tableUnder('The policy')

test('what is said in words follows from the table', () => {
  assert.deepEqual(
    POLICY.map(({ windows }) => windows),
    [...FREQUENCIES],
  )
  const [daily = {}] = POLICY
  const [p5 = '', worst = ''] = [daily.p5, daily.worst].map((bp = '') => bp.slice(1))
  const [least, most] = daily['by start']?.split(' to ') ?? []
  for (const said of [
    `One daily window in twenty cost more than ${p5} bp above its TWAP, and the worst one ${worst} bp.`,
    `saved ${least} bp for a plan that began at the worst hour and ${most} bp at the best`,
  ])
    assert.ok(BACKTEST.includes(said), said)
})

test('the years and the money follow from the tables too', () => {
  const dollars = (cell = ''): string[] =>
    (cell.match(/[+-][\d.]+/g) ?? []).map((bp) => ((Number(bp) * PLAN_USD_A_YEAR) / 1e4).toFixed(1))
  const years = tableUnder('The years')
  assert.deepEqual(
    years.map(({ year }) => year),
    ['2015', '2016', '2017', '2018', '2019', '2020', '2021', '2022'],
  )
  for (const [i, row] of tableUnder('What it is in money').entries()) {
    assert.equal(row.windows, FREQUENCIES[i])
    const means = years.map((year) => Number(year[`${row.windows} mean bp`]))
    const worst = Math.min(...means)
    assert.equal(row['in the worst year']?.slice(-5, -1), years[means.indexOf(worst)]?.year)
    // The tables have hundredths of a basis point, which are 1.2 cents of this plan.
    const pairs: [said: string | undefined, bp: string | undefined][] = [
      [row['than spending evenly'], POLICY[i]?.['mean bp (95 %)']],
      [row['in the worst year'], String(worst)],
    ]
    for (const [said = '', bp = ''] of pairs) {
      const amounts = (said.match(/[+-][\d.]+/g) ?? []).map(Number)
      for (const [n, amount] of dollars(bp.startsWith('-') || bp.startsWith('+') ? bp : `+${bp}`).entries())
        assert.ok(Math.abs((amounts[n] ?? 0) - Number(amount)) < 0.06, `${said} is ${bp} bp`)
    }
  }
  assert.match(BACKTEST, new RegExp(`a plan of ${PLAN_USD_A_YEAR.toLocaleString('en')} USD a year`))
})

test('the guide to the timing has the same figures', () => {
  for (const row of POLICY) {
    const said = `${row['mean bp (95 %)']}, ${row.wins}, worst ${Number(row.worst).toFixed(0)}`
    assert.ok(TIMING.includes(said), said)
  }
})

test('as many years of prices are claimed as were measured', () => {
  const [, from = '', until = ''] = /hourly, (\w{3} \d{4}) to (\w{3} \d{4})/.exec(TIMING) ?? []
  const months = monthsTo(until) + 1 - monthsTo(from)
  assert.equal(Math.floor(months / 12), 7)
  assert.match(TIMING, /Over seven years of real Bitcoin prices/)
})

const MONTHS = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ')
const monthsTo = (name: string): number => Number(name.slice(4)) * 12 + MONTHS.indexOf(name.slice(0, 3))

test('no guide promises a price below the average in one place and none in another', () => {
  for (const file of globSync(['README.md', 'docs/*.md'], { cwd: ROOT }))
    assert.doesNotMatch(joined(readPlain(file)), /slightly better|or better than/, file)
})

// The names in the guides against the files that have them: units, scripts, paths, and every room of src.

/** The limit of a guide that is read in the order of the work, its blocks of code included. */
const WORDS_MAX = 2_500
const GUIDE_FILES = globSync(['README.md', 'docs/*.md', 'deploy/README.md'], { cwd: ROOT }).sort()

test('a unit that a guide gives to systemctl is one that comes with the program', () => {
  const ours = globSync('deploy/*.{service,timer}', { cwd: ROOT }).map((file) => basename(file))
  const given = GUIDE_FILES.flatMap((guide) =>
    [
      ...read(guide).matchAll(
        /systemctl (?:start|stop|restart|reload|status|edit|enable|disable)([^`';|&\n]*)/g,
      ),
    ]
      .flatMap(([, words = '']) => words.split(' '))
      .filter((unit) => unit.startsWith('tranche'))
      .map((unit) => ({ guide, unit: unit.includes('.') ? unit : `${unit}.service` })),
  )
  assert.ok(given.length > 5, `${given.length} units`)
  assert.deepEqual(
    given.filter(({ unit }) => !ours.includes(unit)),
    [],
  )
})

test('what operations does as root, it does not do with tranche itself', () => {
  const blocks = ['sh', 'text'].flatMap((language) => blocksOf(read('docs/operations.md'), language))
  const lines = blocks.flatMap((block) => block.split('\n'))
  assert.ok(lines.some((line) => line.startsWith('runuser -u tranche -- tranche ')))
  assert.deepEqual(
    lines.filter((line) => line.startsWith('tranche ')),
    [],
  )
})

test('a guide of the work is read in a quarter of an hour: what is looked up is in the reference', () => {
  for (const guide of ['docs/operations.md', 'docs/postgres.md']) {
    const words = read(guide).trim().split(/\s+/).length
    assert.ok(words <= WORDS_MAX, `${guide} has ${words} words, and may have ${WORDS_MAX}`)
  }
})

test('every script of npm is in a guide, and every one in a guide exists', () => {
  const scripts = Object.keys(JSON.parse(read('package.json')).scripts)
  const text = GUIDE_FILES.map(read).join('\n')
  const run = [...text.matchAll(/\bnpm run ([\w:]+)/g)].map(([, name = '']) => name)
  assert.deepEqual(
    run.filter((name) => !scripts.includes(name)),
    [],
  )
  const named = (name: string) =>
    ['npm ', 'npm run ', '`'].some((before) => text.includes(`${before}${name}`))
  assert.deepEqual(
    scripts.filter((name) => !named(name)),
    [],
  )
})

// docs/architecture.md against the tree: every path it names exists, and every room of src is named.

const ARCHITECTURE = readFileSync(join(ROOT, 'docs/architecture.md'), 'utf8')
const PATH = /`((?:src|test|sql|docs|bin|deploy|fixtures)\/[^`\s]*)`/g
const BYTES_MAX = 10 * 1024

test('every path on the page exists', () => {
  const paths = [...ARCHITECTURE.matchAll(PATH)].map(([, path = '']) => path)
  const links = [...ARCHITECTURE.matchAll(/\]\(([^)#]+)/g)].map(([, link = '']) => join('docs', link))
  assert.ok(paths.length > 50, `the page names ${paths.length} paths`)
  assert.ok(links.length > 2, `the page has ${links.length} links`)
  assert.deepEqual(
    [...paths, ...links].filter((path) => !existsSync(join(ROOT, path))),
    [],
  )
})

test('every folder of src is in the tree', () => {
  const folders = globSync('src/*/', { cwd: ROOT }).map((folder) => `\`${folder.replace(/\/?$/, '/')}\``)
  assert.deepEqual(
    folders.filter((folder) => !ARCHITECTURE.includes(folder)),
    [],
  )
})

test('the page is read in ten minutes', () => {
  assert.ok(Buffer.byteLength(ARCHITECTURE) <= BYTES_MAX, `${Buffer.byteLength(ARCHITECTURE)} bytes`)
})

// docs/examples/README.md against the programs: it names the settings that they read, in both languages.

const EXAMPLES = join(import.meta.dirname, '../../docs/examples')
const textOf = (pattern: string): string =>
  globSync(pattern, { cwd: EXAMPLES })
    .map((file) => readFileSync(join(EXAMPLES, file), 'utf8'))
    .join('\n')
const sorted = (names: Iterable<string>): string[] => [...new Set(names)].sort()

test('the page names every setting, and only those there are', () => {
  const python = [...textOf('python/*.py').matchAll(/environ\.get\("(\w+)"/g)].map(([, name = '']) => name)
  const settings = [...textOf('javascript/*.mjs').matchAll(/^const \{([^}]+)\} = process\.env$/gm)]
  const javascript = settings.flatMap(([, block = '']) => block.match(/\b[A-Z][A-Z_]+\b(?=[, =])/g) ?? [])
  const table = textOf('README.md').split('## Settings')[1]?.split('## ')[0] ?? ''
  const rows = [...table.matchAll(/^\| (`[^|]+`) \|/gm)].flatMap(
    ([, names = '']) => names.match(/[A-Z_]+/g) ?? [],
  )
  assert.ok(python.length > 5)
  assert.deepEqual(sorted(javascript), sorted(python))
  assert.deepEqual(sorted(rows), sorted(python))
})
