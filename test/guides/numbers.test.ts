// The guides against the constants and the files: every number is right, and every name exists.

import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import { WEEKS } from '../../src/cli/demo/play.ts'
import { CONNECTIONS_MAX, DESCRIPTORS_KEPT } from '../../src/cli/service/serve.ts'
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
import { formatUsd, usd } from '../../src/core/money.ts'
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
import { layout, slotMsOf } from '../../src/engine/slot-reserve.ts'
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
  [/of the fifty for (\S+) seconds/g, TOTAL_TIMEOUT_MS / SECOND_MS, ['webhooks']],
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
  [/hours, (\S+) or more of a partner's orders failed/g, FAILED_ORDERS_MIN, ['reference']],
  [/In the last (\S+) hours, three or more/g, ORDERS_SEEN_MS / HOUR_MS, ['reference']],
  [/Less than (\S+) % of the disk/g, DISK_FREE_MIN * 100, ['reference']],
  [/`feed_down` ends after (\S+) ticks/g, FEED_PASSES_SEEN, ['levers']],
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
    const plenty = { budget: usd('1000000'), floor: MIN_TRANCHE_DEFAULT }
    const { slots, unitsPerSlot } = layout({ windowStart: 0 as Instant, windowEnd, ...plenty })
    const cells = [frequency, `${windowEnd / HOUR_MS} h`, `${slotMs / HOUR_MS} h`, slots, unitsPerSlot]
    const row = `| ${[...cells, slots * unitsPerSlot].join(' | ')} |`
    assert.ok(ENGINE.includes(row), row)
  }
})

test('the limit on connections is the one that is kept', () => {
  const most = `minus ${DESCRIPTORS_KEPT}, which are kept for the database and for outgoing calls, ${CONNECTIONS_MAX.toLocaleString('en')} at most`
  assert.ok(GUIDES.get('docs/reference.md')?.includes(most), most)
})

const WORDS = 'zero one two three four five six seven eight nine ten eleven twelve'.split(' ')
const ORDINALS = { fifth: 'five', tenth: 'ten' }
const TENS = { fifteen: 15, twenty: 20, thirty: 30, fifty: 50 }

function numberOf(text: string): number {
  const word = text.toLowerCase()
  const spelled = WORDS.indexOf(ORDINALS[word as keyof typeof ORDINALS] ?? word)
  return spelled >= 0 ? spelled : (TENS[word as keyof typeof TENS] ?? Number(word.replaceAll(',', '')))
}

const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8')

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
  const unknown = given.filter(({ unit }) => !ours.includes(unit))
  assert.deepEqual(unknown, [])
})

test('what operations does as root, it does not do with tranche itself', () => {
  const blocks = ['sh', 'text'].flatMap((language) => blocksOf(read('docs/operations.md'), language))
  const lines = blocks.flatMap((block) => block.split('\n'))
  assert.ok(lines.some((line) => line.startsWith('runuser -u tranche -- tranche ')))
  const asRoot = lines.filter((line) => line.startsWith('tranche '))
  assert.deepEqual(asRoot, [])
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
  const named = (name: string) =>
    ['npm ', 'npm run ', '`'].some((before) => text.includes(`${before}${name}`))
  const unknown = run.filter((name) => !scripts.includes(name))
  const unsaid = scripts.filter((name) => !named(name))
  assert.deepEqual([unknown, unsaid], [[], []])
})

// docs/architecture.md against the tree: every path it names exists, and every room of src is named.

const ARCHITECTURE = read('docs/architecture.md')
const PATH = /`((?:src|test|sql|docs|bin|deploy|fixtures)\/[^`\s]*)`/g
const BYTES_MAX = 10 * 1024

test('every path on the page exists', () => {
  const paths = [...ARCHITECTURE.matchAll(PATH)].map(([, path = '']) => path)
  const links = [...ARCHITECTURE.matchAll(/\]\(([^)#]+)/g)].map(([, link = '']) => join('docs', link))
  assert.ok(paths.length > 50, `the page names ${paths.length} paths`)
  assert.ok(links.length > 2, `the page has ${links.length} links`)
  const gone = [...paths, ...links].filter((path) => !existsSync(join(ROOT, path)))
  assert.deepEqual(gone, [])
})

test('every folder of src is in the tree', () => {
  const folders = globSync('src/*/', { cwd: ROOT }).map((folder) => `\`${folder.replace(/\/?$/, '/')}\``)
  const unsaid = folders.filter((folder) => !ARCHITECTURE.includes(folder))
  assert.deepEqual(unsaid, [])
})

test('the page is read in ten minutes', () => {
  assert.ok(Buffer.byteLength(ARCHITECTURE) <= BYTES_MAX, `${Buffer.byteLength(ARCHITECTURE)} bytes`)
})

// docs/examples/README.md against the programs: it names the settings that they read, in both languages.

const textOf = (pattern: string): string =>
  globSync(`docs/examples/${pattern}`, { cwd: ROOT }).map(read).join('\n')
const sorted = (names: Iterable<string>): string[] => [...new Set(names)].sort()

test('the page names every setting, and only those there are', () => {
  const python = [...textOf('python/*.py').matchAll(/environ\.get\("(\w+)"/g)].map(([, name = '']) => name)
  const settings = [...textOf('javascript/*.mjs').matchAll(/^const \{([^}]+)\} = process\.env$/gm)]
  const javascript = settings.flatMap(([, block = '']) => block.match(/\b[A-Z][A-Z_]+\b(?=[, =])/g) ?? [])
  const table = textOf('README.md').split('## Settings')[1]?.split('## ')[0] ?? ''
  const cells = [...table.matchAll(/^\| (`[^|]+`) \|/gm)].map(([, names]) => names)
  const rows = cells.join().match(/[A-Z_]+/g) ?? []
  assert.ok(python.length > 5)
  assert.deepEqual(sorted(javascript), sorted(python))
  assert.deepEqual(sorted(rows), sorted(python))
})
