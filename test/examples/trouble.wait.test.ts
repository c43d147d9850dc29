// The sample partners when the service is down, slow, refuses or changes its answer, and when they are started twice.

import assert from 'node:assert/strict'
import { readdirSync, readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import SQLite from 'better-sqlite3'
import { LEASE_MS } from '../../src/core/execution.ts'
import { signatureOf } from '../../src/webhook/signature.ts'
import { link, PRICE, plan } from '../http/steps.ts'
import { each } from '../store/world.ts'
import { blocksOf } from '../support/samples.ts'
import { freePort } from '../support/within.ts'
import { SECRET } from '../webhook/stage.ts'
import { type Call, isConfirm, isPoll, type Move } from './front.ts'
import {
  assertSameBooks,
  EXAMPLES,
  HURRIED_S,
  journalOf,
  keptOf,
  openOf,
  ordersOf,
  PATIENCE,
  rewrite,
  SAMPLES,
  type Sample,
  type Stage,
  setStage,
  tradesOf,
  until,
} from './stage.ts'

const PAGE = '<html>Bad gateway</html>'
/** The answers of the service when it refuses or fails. */
const says = (status: number, code: string, detail: string, more = {}): Move => ({
  status,
  headers: { 'x-error-code': code, ...more },
  body: JSON.stringify({ detail }),
})
const PAGE_OF_SAMPLES = readFileSync(join(EXAMPLES, 'README.md'), 'utf8')
const DOWN = HURRIED_S.length + 1

/** Polls that fail: the service is down, busy, failing, or an intermediary answers for it. */
const BAD_POLLS: Move[] = [
  says(503, 'starting', 'The service is starting.', { 'retry-after': '1' }),
  says(429, 'rate_limited', 'Too many requests.', { 'retry-after': 'Wed, 21 Oct 2026 07:28:00 GMT' }),
  says(500, 'internal_error', 'Internal Server Error'),
  { status: 404, body: PAGE },
  // A gateway that speaks JSON is not the service either.
  { status: 403, body: '{"message":"Forbidden"}' },
  { status: 302, headers: { location: '/elsewhere' }, body: PAGE },
  'hang',
  'lose',
]

type Play = Stage & { wake: (secret?: string) => Promise<number>; env: Record<string, string> }

async function begin(t: TestContext, sample: Sample, plans: readonly string[]): Promise<Play> {
  const stage = await setStage(t, sample)
  for (const id of plans) {
    await link(stage.service, id)
    await plan(stage.service, id, id)
  }
  await stage.service.tick(PRICE)
  const port = String(await freePort())
  const body = '{"event":"executions.available"}'
  return {
    ...stage,
    env: { WEBHOOK_SECRET: SECRET, WEBHOOK_PORT: port },
    async wake(secret = SECRET) {
      const headers = { 'x-service-signature': signatureOf(secret, body) }
      const { status } = await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', body, headers })
      return status
    },
  }
}

type Planned = Move | (() => Promise<Move>)

/** The moves in their order, each for one matching call; all else is forwarded. */
const inTurn = (like: (call: Call) => boolean, moves: readonly Planned[]) => {
  const left = [...moves]
  return (call: Call): Move | Promise<Move> => {
    const move = like(call) ? (left.shift() ?? 'forward') : 'forward'
    return typeof move === 'function' ? move() : move
  }
}

/** Moves for the confirmations of each execution, in the order of their first confirmations. */
function eachInTurn(moves: readonly (readonly Planned[])[]) {
  const turns = new Map<string, (call: Call) => Move | Promise<Move>>()
  return (call: Call) => {
    if (!isConfirm(call)) return 'forward'
    const turn = turns.get(call.path) ?? inTurn(isConfirm, moves[turns.size] ?? [])
    turns.set(call.path, turn)
    return turn(call)
  }
}

const countOf = ({ front }: Stage, like: (call: Call) => boolean): number => front.calls.filter(like).length
const isDone = (stage: Stage) => () =>
  openOf(stage) === 0 && journalOf(stage).every(({ answer }) => answer !== null)

async function outlastsBadPolls(t: TestContext, sample: Sample): Promise<void> {
  const play = await begin(t, sample, ['a'])
  rewrite(join(play.folder, sample.main), [PATIENCE])
  const { service, front } = play
  front.onCall(inTurn(isPoll, Array<Move>(DOWN).fill('reset')))
  const partner = play.launch(play.env)
  const told = () => partner.out() + partner.err()
  await until(isDone(play), told)

  const waits = [...partner.err().matchAll(/; again in ([\d.]+) s$/gm)].map(([, seconds]) => Number(seconds))
  assert.equal(waits.length, DOWN, told())
  for (const [index, seconds] of waits.entries()) {
    const wait = HURRIED_S[Math.min(index, HURRIED_S.length - 1)] ?? 0
    assert.ok(seconds >= wait / 2 - 0.006 && seconds <= wait + 0.006, `wait ${index} of ${waits}`)
  }

  await plan(service, 'a', 'b')
  await service.tick(PRICE)
  const polls = countOf(play, isPoll)
  assert.equal(await play.wake('sse_whsec_another'), 401)
  assert.equal(countOf(play, isPoll), polls, 'a wake-up with another signature is none')
  front.onCall(inTurn(isPoll, BAD_POLLS))
  assert.equal(await play.wake(), 204)
  // The lost answer of the poll had the instruction, which is leased for a while.
  await until(() => countOf(play, isPoll) > polls + BAD_POLLS.length, told)
  assert.match(partner.err(), /503 starting \{"detail":"The service is starting\."\}; again in 1\.00 s\n/)
  assert.match(partner.err(), /: 404 <html>Bad gateway<\/html>; again in /)
  service.advance(LEASE_MS)
  await play.wake()
  await until(isDone(play), told)
  assertSameBooks(play)
  assert.equal(tradesOf(play).length, 2)
}

async function outlastsBadConfirmations(t: TestContext, sample: Sample): Promise<void> {
  const play = await begin(t, sample, ['a', 'b', 'c', 'd'])
  rewrite(join(play.folder, sample.main), [PATIENCE])
  const { service, front } = play
  let cancelled = ''
  const cancelIt = async (): Promise<Move> => {
    const id = front.calls.at(-1)?.path.split('/').at(-2)
    cancelled = (await service.store.findExecution(id ?? ''))?.execution.partnerPlanId ?? ''
    await plan(service, cancelled, cancelled, { status: 'cancelled' })
    return 'forward'
  }
  const expire = async (): Promise<Move> => {
    service.advance(LEASE_MS)
    return 'forward'
  }
  const revoked = says(401, 'key_invalid', 'Invalid API key.')
  const failing = says(500, 'internal_error', 'Internal Server Error')
  const busy = says(503, 'database_busy', 'database')
  const pending = says(409, 'execution_pending', 'poll due first')
  const page: Move = { status: 404, body: PAGE }
  front.onCall(eachInTurn([[failing, 'lose', 'hang', busy], [cancelIt], [pending, expire], [page, revoked]]))
  const first = play.launch(play.env)
  const told = () => first.out() + first.err()
  await until(first.hasEnded, told)
  assert.equal(await first.ended, 1, told())
  assert.match(first.err(), /confirm exec_[0-9a-f]{32}: 401 key_invalid \{"detail":"Invalid API key\."\}/)
  assert.match(
    first.err(),
    /^exec_[0-9a-f]{32} is refused, and a person has to decide: 409 execution_cancelled .*cancelled before/m,
  )
  assert.match(first.err(), /^exec_[0-9a-f]{32} waits for its next delivery: 409 execution_pending /m)
  assert.deepEqual([keptOf(play).length, tradesOf(play).length, openOf(play)], [1, 1, 2])

  const second = play.launch(play.env)
  await until(isDone(play), () => second.out() + second.err())
  assertSameBooks(play)
  assert.deepEqual([keptOf(play).length, tradesOf(play).length], [1, 3])

  await canBeMended(play)
  await comesAgain(play)
  await cannotRunTwice(play)
}

/** The remedy on the samples' page: look up the refused report, and have it sent once more. */
async function canBeMended(play: Play): Promise<void> {
  const refused = play.sample.language === 'Python' ? mendDatabase(play) : mendFolder(play)
  assert.match(refused.join('\n'), /^409 .*$/)
  const before = countOf(play, isConfirm)
  await play.wake()
  const mended = () => countOf(play, isConfirm) > before && isDone(play)()
  await until(mended, () => JSON.stringify(journalOf(play)))
}

function mendDatabase({ folder }: Play): string[] {
  const [query = assert.fail('the page has the query')] = blocksOf(PAGE_OF_SAMPLES, 'sql')
  const journal = new SQLite(join(folder, 'journal-test.db'))
  const refused = journal.prepare<[], { answer: string }>(query).all()
  journal.exec("UPDATE purchases SET answer = NULL WHERE answer <> 'recorded'")
  journal.close()
  return refused.map(({ answer }) => answer)
}

function mendFolder({ folder }: Play): string[] {
  assert.ok(PAGE_OF_SAMPLES.includes('`refused`') && PAGE_OF_SAMPLES.includes('`open`'))
  const refused = join(folder, 'journal-test/refused')
  return readdirSync(refused).map((name) => {
    const { refusal } = JSON.parse(readFileSync(join(refused, name), 'utf8'))
    renameSync(join(refused, name), join(folder, 'journal-test/open', name))
    return refusal
  })
}

/** A service that was restored from a backup delivers again an instruction recorded here, and one refused. */
async function comesAgain(play: Play): Promise<void> {
  const asked = { idempotency_key: 'whatever it says now', amount_usd: '10.00' }
  const due = journalOf(play).map(({ execution_id }) => ({ execution_id, ...asked }))
  const again: Move = { status: 200, headers: { 'x-due-remaining': '0' }, body: JSON.stringify(due) }
  play.front.onCall(inTurn(isPoll, [again]))
  const before = countOf(play, isConfirm)
  await play.wake()
  const confirmed = () => countOf(play, isConfirm) >= before + 3
  await until(confirmed, () => JSON.stringify(play.front.calls))
  await play.wake()
  assert.equal(ordersOf(play).length, 4, 'nothing is bought again')
}

async function cannotRunTwice(play: Play): Promise<void> {
  const calls = play.front.calls.length
  const twin = play.launch({ WEBHOOK_SECRET: '' })
  await until(twin.hasEnded, twin.err)
  assert.equal(await twin.ended, 1)
  const locked =
    /^journal-test(\.db)? is in use by another process, or cannot be locked(\.|: .*database is locked)\n$/m
  assert.match(twin.err(), locked)
  assert.ok(play.front.calls.slice(calls).every(isPoll), 'only the first one calls')
}

async function endsAnOpenOrder(t: TestContext, sample: Sample): Promise<void> {
  const play = await begin(t, sample, ['a'])
  const partner = play.launch({ PAPER_OPEN_MS: '60000' })
  await until(isDone(play), () => partner.out() + partner.err())
  assert.deepEqual(each(tradesOf(play), 'status', 'usd', 'btc'), [['failed', '0.00', '0.00000000']])
  assert.match(journalOf(play)[0]?.report ?? '', /"failure_reason": ?"cancelled"/)
}

/** The order arrives, and the venue's answer does not. */
async function asksForAnOrder(t: TestContext, sample: Sample): Promise<void> {
  const play = await begin(t, sample, ['a'])
  rewrite(join(play.folder, sample.venue), [sample.lostAnswer])
  const partner = play.launch(play.env)
  await until(isDone(play), () => partner.out() + partner.err())
  assert.match(partner.err(), /^venue: .*no answer/m)
  await until(() => partner.err().includes('webhook: none is registered.'), partner.err)
  assertSameBooks(play)
}

suite('a partner in trouble', { concurrency: true }, () => {
  for (const sample of SAMPLES) {
    const { language } = sample
    test(`in ${language}, keeps the contract's waits and polls until it is answered`, (t) =>
      outlastsBadPolls(t, sample))
    test(`in ${language}, confirms through every failure`, (t) => outlastsBadConfirmations(t, sample))
    test(`in ${language}, cancels an order that stays open`, (t) => endsAnOpenOrder(t, sample))
    test(`in ${language}, asks for an order when the venue did not answer`, (t) => asksForAnOrder(t, sample))
  }
})
