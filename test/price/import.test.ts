// `tranche price import`: all of a file or nothing of it, whatever the file holds and however its text comes.

import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { price } from '../../src/core/money.ts'
import { sigma, type Volatility } from '../../src/core/price.ts'
import { DAY_MS, MINUTE_MS, plus } from '../../src/core/time.ts'
import { machineAt } from '../../src/machine.ts'
import { linesOf } from '../../src/price/history-file.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import { temporaryFolder } from '../support/database.ts'
import { type Outcome, runHere, T0 } from '../support/service.ts'
import { csv, newDatabase, type Point, rowOf, rowsIn, shuffled, walk } from './histories.ts'
import { startTicker } from './ticker.ts'

const POINTS = walk(5)
const [FIRST, SECOND, THIRD] = POINTS.map(rowOf)

async function importing(
  t: Pick<TestContext, 'after'>,
  content: string | Buffer,
): Promise<Outcome & { db: string; file: string }> {
  const { folder, db } = await newDatabase(t)
  const file = join(folder, 'history.csv')
  writeFileSync(file, content)
  const outcome = await runHere(['--db', db, '--json', 'price', 'import', file], {
    machine: machineAt(plus(T0, 400 * DAY_MS)).machine,
  })
  return { ...outcome, db, file }
}

describe('a file in any of these forms is taken whole', () => {
  const cases: [string, string, { rows: number; added: number }][] = [
    ['the header alone', 'time,price\n', { rows: 0, added: 0 }],
    ['CRLF', csv(POINTS).replaceAll('\n', '\r\n'), { rows: 5, added: 5 }],
    ['no newline at the end', csv(POINTS).trimEnd(), { rows: 5, added: 5 }],
    ['a byte order mark', `\uFEFF${csv(POINTS)}`, { rows: 5, added: 5 }],
    ['blank lines', csv(POINTS).replaceAll('\n', '\n\n').replace('\n\n', '\n'), { rows: 5, added: 5 }],
    ['rows out of order', csv(POINTS.toReversed()), { rows: 5, added: 5 }],
    ['rows that repeat', csv([...POINTS, ...POINTS]), { rows: 10, added: 5 }],
    [
      'another offset',
      'time,price\n2026-01-05T01:00:00+01:00,5\n2026-01-05T00:00:00Z,6\n',
      { rows: 2, added: 1 },
    ],
  ]
  for (const [name, content, { rows, added }] of cases) {
    test(name, async (t) => {
      const { code, out, err, db } = await importing(t, content)
      assert.equal(code, 0, err)
      assert.deepEqual(JSON.parse(out), { rows, added, duplicates: rows - added })
      assert.deepEqual(rowsIn(db), { prices: added, staged: 0 })
    })
  }
})

describe('a row that is wrong is named by its line, and nothing of the file is kept', () => {
  const time = '2026-01-05T00:30:00Z'
  const cases: [string, string, RegExp][] = [
    ['a time without an offset', '2026-01-05T00:30:00,5', /does not start with a UTC time/],
    ['columns the other way round', `5,${time}`, /does not start with a UTC time/],
    ['no price', `${time},`, /its price is ""/],
    ['negative', `${time},-5`, /its price is "-5"/],
    ['zero', `${time},0.00`, /its price is zero/],
  ]
  for (const [name, row, why] of cases) {
    test(name, async (t) => {
      const { code, out, err, db, file } = await importing(
        t,
        `time,price\n${FIRST}\n${SECOND}\n${row}\n${THIRD}\n`,
      )
      assert.equal(code, 1)
      assert.equal(out, '')
      const { error } = JSON.parse(err)
      assert.equal(error.code, 'bad_file')
      assert.ok(error.message.startsWith(`${file} line 4: `), error.message)
      assert.match(error.message, why)
      assert.deepEqual(rowsIn(db), { prices: 0, staged: 0 })
    })
  }

  test('a time that lies in the future', async (t) => {
    const now = plus(T0, 400 * DAY_MS)
    const last = rowOf({ at: now, price: price('1') })
    const { code } = await importing(t, `time,price\n${last}\n`)
    assert.equal(code, 0)
    const next = rowOf({ at: plus(now, 1), price: price('1') })
    const { err, db } = await importing(t, `time,price\n${last}\n${next}\n`)
    assert.match(JSON.parse(err).error.message, /line 3: its time lies in the future; it is 2027-02-09T/)
    assert.deepEqual(rowsIn(db), { prices: 0, staged: 0 })
  })

  test('after thousands of good ones', async (t) => {
    const good = walk(25_000, { everyMs: MINUTE_MS })
    const { code, err, db } = await importing(t, `${csv(good)}oops\n`)
    assert.equal(code, 1)
    assert.match(JSON.parse(err).error.message, /line 25002: /)
    assert.deepEqual(rowsIn(db), { prices: 0, staged: 0 })
  })
})

describe('what is not a price file is refused with a reason', () => {
  const refused = (outcome: Outcome, why: RegExp, code = 1): void => {
    assert.equal(outcome.code, code)
    assert.equal(outcome.out, '')
    assert.match(JSON.parse(outcome.err).error.message, why)
  }
  const headers: [string, string | Buffer, RegExp][] = [
    ['an empty file', '', /line 1: expected the header time,price, found ""/],
    ['another header', 'date,close\n2026-01-05,5\n', /found "date,close"/],
    ['no header', `${FIRST}\n`, /line 1: expected the header/],
    ['bytes that are not text', Buffer.from([0xff, 0xfe, 0x00, 0x01, 0x0a]), /line 1: expected the header/],
  ]
  for (const [name, content, why] of headers) {
    test(name, async (t) => {
      const outcome = await importing(t, content)
      refused(outcome, why)
      assert.deepEqual(rowsIn(outcome.db), { prices: 0, staged: 0 })
    })
  }

  test('a file that is not there, a folder, and a database that is not there', async (t) => {
    const { folder, db } = await newDatabase(t)
    const inside = join(folder, 'inside')
    mkdirSync(inside)
    const { machine } = machineAt(T0)
    const of = (file: string, at = db) =>
      runHere(['--db', at, '--json', 'price', 'import', file], { machine })
    refused(await of(join(folder, 'no.csv')), /There is no file .*no\.csv/, 4)
    refused(await of(inside), /inside: (EISDIR|it is not a regular file)/)
    const prices = join(folder, 'prices.csv')
    writeFileSync(prices, 'time,price\n')
    assert.equal((await of(prices, join(folder, 'no.db'))).code, 4)
  })
})

test('a stored price stays when the file has another for its instant, and the first of a file wins', async (t) => {
  const folder = temporaryFolder(t)
  const db = join(folder, 'tranche.db')
  const store = await openStore(db, { clock: () => T0, create: true })
  t.after(() => store.close())
  await store.addPrice({ price: price('1'), source: 'test' })
  const later = plus(T0, MINUTE_MS)
  const file = join(folder, 'history.csv')
  const points = [
    { at: T0, price: price('2') },
    { at: later, price: price('3') },
    { at: later, price: price('4') },
  ]
  writeFileSync(file, csv(points))
  const { code, out, err } = await runHere(['--db', db, 'price', 'import', file])
  assert.equal(code, 0, err)
  assert.match(out, /^rows +3\nadded +1\nduplicates +2\n$/)
  assert.match(err, /already had a price kept theirs/)
  assert.deepEqual(await store.listPrices({ after: null, limit: 10 }), [
    { at: T0, price: price('1'), source: 'test' },
    { at: later, price: price('3'), source: 'import' },
  ])
})

describe('the volatility after an import', () => {
  const imported = async (t: TestContext, parts: Point[][]): Promise<Volatility> => {
    const store = await openStore(join(temporaryFolder(t), 'a.db'), { clock: () => T0, create: true })
    t.after(() => store.close())
    for (const part of parts) await store.importPrices(batchesOf(part), 'test')
    return (await store.peekPass()).volatility
  }
  const observed = async (t: TestContext, points: Point[]): Promise<Volatility> => {
    const { machine, setClock } = machineAt(T0)
    const store = await openStore(join(temporaryFolder(t), 'b.db'), { clock: machine.clock, create: true })
    t.after(() => store.close())
    for (const point of points) {
      setClock(point.at)
      await store.addPrice({ price: point.price, source: 'test' })
    }
    return (await store.peekPass()).volatility
  }

  test('is what the same prices give one by one, in whatever order the file has them', async (t) => {
    const points = walk(400, { seed: 7 })
    const [middle] = [points.length / 2]
    const expected = await observed(t, points)
    assert.ok(expected.hours > 24)
    assert.deepEqual(await imported(t, [points]), expected)
    assert.deepEqual(await imported(t, [shuffled(points, 3)]), expected)
    assert.deepEqual(await imported(t, [points.slice(middle), points.slice(0, middle)]), expected)
  })

  test('forgets no more of a long history than nobody would notice', async (t) => {
    const points = walk(400, { seed: 9, everyMs: 6 * 60 * MINUTE_MS })
    assert.ok((points.at(-1)?.at ?? 0) - T0 > 90 * DAY_MS)
    const ratio = sigma(await imported(t, [points])) / sigma(await observed(t, points))
    assert.ok(Math.abs(ratio - 1) < 0.02, `ratio ${ratio}`)
  })
})

async function* batchesOf(points: Point[]): AsyncGenerator<Point[]> {
  for (let from = 0; from < points.length; from += 150) yield points.slice(from, from + 150)
}

test('price fetch keeps one price; without a feed it is a usage error, with one that fails it keeps nothing', async (t) => {
  const { db } = await newDatabase(t)
  const headers = { date: 'Mon, 05 Jan 2026 00:00:00 GMT' }
  const good = await startTicker(t, { headers, body: '{"last":"64250.5"}' })
  const { origin } = await startTicker(t, { status: 500, body: '' })
  const { machine } = machineAt(T0)
  const fetching = (...args: string[]) => runHere(['--db', db, 'price', 'fetch', ...args], { machine })
  assert.equal((await fetching()).code, 2)
  assert.equal((await fetching('--price-feed', 'bloomberg')).code, 2)
  const failed = await fetching('--price-feed', `${origin}/x#/last`)
  assert.equal(failed.code, 1)
  assert.match(failed.err, /HTTP 500/)
  assert.equal(rowsIn(db).prices, 0)
  const fetched = await fetching('--json', '--price-feed', `${good.origin}/x#/last`)
  const source = new URL(good.origin).host
  assert.deepEqual(JSON.parse(fetched.out), { at: '2026-01-05T00:00:00.000Z', price_usd: '64250.50', source })
  assert.equal(rowsIn(db).prices, 1)
})

// Lines of a text are the same however the text is cut into chunks.

/** Chunks as a stream has them: none is empty. */
async function* cut(text: string, places: readonly number[]): AsyncGenerator<string> {
  const edges = [0, ...places.map((place) => place % (text.length + 1)).sort((a, b) => a - b), text.length]
  for (const [i, edge] of edges.entries()) {
    const chunk = text.slice(edges[i - 1] ?? 0, edge)
    if (i > 0 && chunk !== '') yield chunk
  }
}

async function linesIn(text: string, places: readonly number[] = []): Promise<string[]> {
  const lines: string[] = []
  for await (const some of linesOf(cut(text, places))) lines.push(...some)
  return lines
}

test('LF, CRLF and CR end a line, and the last one needs no end', async () => {
  assert.deepEqual(await linesIn('a\nb\r\nc\rd'), ['a', 'b', 'c', 'd'])
  assert.deepEqual(await linesIn('a\n\r\n\r\rb\n'), ['a', '', '', '', 'b'])
  assert.deepEqual(await linesIn('\n'), [''])
  assert.deepEqual(await linesIn(''), [])
})

test('a line that chunks divide is one line, and so is an end of two characters', async () => {
  assert.deepEqual(await linesIn('time,price\r\n1,2\r\n', [2, 7, 11, 12, 13, 17]), ['time,price', '1,2'])
  assert.deepEqual(await linesIn('a\r\r\nb', [2, 3]), ['a', '', 'b'])
  const texts = fc.string({ unit: fc.constantFrom('a', ',', '\r', '\n'), maxLength: 40 })
  await fc.assert(
    fc.asyncProperty(texts, fc.array(fc.nat(), { maxLength: 12 }), async (text, places) => {
      assert.deepEqual(await linesIn(text, places), await linesIn(text))
    }),
    { numRuns: 500 },
  )
})
