// Rounds on a database that many hosts share: all of them work, one is struck, and what was answered must be there.

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { monthOf } from '../../../src/core/time.ts'
import { within } from '../../support/within.ts'
import { assertAnswered, assertRules, assertWhole } from './ledger.ts'
import type { Partner } from './partner.ts'
import { openScene, type Scene } from './scene.ts'
import { deck, type Strike } from './strikes.ts'

export type Tally = { rounds: number; atWork: number; answersLost: number }
export type Hosted = { tallies: Map<string, Tally>; answered: Record<string, number> }

/** A round that takes longer hangs somewhere. */
const ROUND_MAX_MS = 240_000
const LIVE_WORKERS = 3
const TEST_WORKERS = 2
const LEAD_MS = 100
/** After so many rounds everything is looked at, and the sandbox goes on by days. */
const RULES_EVERY = 20
const ADVANCE_EVERY = 25
const WHOLE_EVERY = 100
const ADVANCE_DAYS = 9

type Options = {
  seed: number
  onRound?: (round: number, struck: string) => void
  /** Whether to end before the next round. */
  isOver?: () => boolean
}

/** Runs rounds on one pair of servers. Throws with the round that failed and with what the server was about. */
export async function hostRounds(
  rounds: number,
  { seed, onRound = () => {}, isOver = () => false }: Options,
): Promise<Hosted> {
  const scene = await openScene(seed)
  const tallies = new Map<string, Tally>()
  const months = new Map<string, string>()
  let doing = 'at the start'
  try {
    for (const partner of scene.partners) await partner.enrol(10)
    let strikes: Strike[] = []
    for (let round = 1; round <= rounds && !isOver(); round++) {
      if (strikes.length === 0) strikes = deck(scene.random)
      const strike = strikes.shift() as Strike
      doing = `round ${round} of seed ${seed} (${strike.name})`
      const work = async () => {
        await strikeOnce(scene, strike, tallies)
        if (round % RULES_EVERY === 0) await assertSound(scene)
        if (round % ADVANCE_EVERY === 0) await advance(scene, months)
        if (round % WHOLE_EVERY === 0) await assertAll(scene)
      }
      await within(ROUND_MAX_MS, doing, work())
      onRound(round, strike.name)
    }
    doing = 'at the end'
    await within(ROUND_MAX_MS, doing, finish(scene, months))
  } catch (error) {
    const about = await within(ABOUT_MAX_MS, 'the server', aboutServer(scene)).catch(String)
    await scene.end(true)
    throw new Error(`${doing}: ${(error as Error).stack}\n${about}`, { cause: error })
  }
  await scene.end(false)
  return { tallies, answered: answeredIn(scene) }
}

async function strikeOnce(scene: Scene, strike: Strike, tallies: Map<string, Tally>): Promise<void> {
  const tally = tallies.get(strike.name) ?? { rounds: 0, atWork: 0, answersLost: 0 }
  tallies.set(strike.name, tally)
  const before = lostOf(scene)
  let working = true
  const work = async (partner: Partner): Promise<void> => {
    while (working) await partner.step()
  }
  const [live, test] = scene.partners
  const workers = [
    ...Array.from({ length: LIVE_WORKERS }, () => work(live)),
    ...Array.from({ length: TEST_WORKERS }, () => work(test)),
  ]
  const all = Promise.all(workers)
  const struck = (async () => {
    await pause(scene.random() * LEAD_MS)
    const atWork = await strike.strike(scene)
    await pause(scene.random() * LEAD_MS)
    return atWork
  })()
  // A worker ends by itself only when something is wrong.
  const atWork = await Promise.race([struck, all.then(() => false)]).finally(() => {
    working = false
  })
  await all
  const answersLost = lostOf(scene) - before
  tally.rounds += 1
  tally.answersLost += answersLost
  if (atWork || answersLost > 0) tally.atWork += 1
  for (const host of [...scene.services, ...scene.tickers]) host.assertSound()
  for (const partner of scene.partners) await assertAnswered(scene.cluster, partner)
}

const lostOf = ({ partners }: Scene): number =>
  partners.reduce((sum, { calls: { counts } }) => sum + counts.unanswered + counts.putOff, 0)

async function assertSound({ run, cluster }: Scene): Promise<void> {
  await assertRules(cluster)
  const { ok, findings } = JSON.parse(await run(['check', '--json']))
  assert.ok(ok, JSON.stringify(findings))
}

async function assertAll(scene: Scene): Promise<void> {
  for (const partner of scene.partners) await assertWhole(scene.cluster, partner)
}

/** Takes the sandbox through days, and holds the months that are over there against what they were before. */
async function advance(scene: Scene, months: Map<string, string>): Promise<void> {
  const { run, random } = scene
  const days = 1 + Math.floor(random() * ADVANCE_DAYS)
  const said = JSON.parse(
    await run(['sandbox', 'advance', 'acme', `${days}d`, '--price', '60000', '--json']),
  ) as { from: string; to: string }
  const [from, to] = [said.from, said.to].map((at) => monthOf(Date.parse(at) as never)) as [string, string]
  if (from < to) months.set(from, await trades(scene, from))
  await assertMonths(scene, [...months].slice(-1))
}

async function assertMonths(scene: Scene, months: Iterable<[string, string]>): Promise<void> {
  for (const [month, was] of months) assert.equal(await trades(scene, month), was, `${month} has changed`)
}

async function trades({ run }: Scene, month: string): Promise<string> {
  const text = await run(['billing', 'export', '--month', month, '--env', 'test', '--report', 'trades'])
  return `${createHash('sha256').update(text).digest('hex')} of ${text.length} bytes`
}

async function finish(scene: Scene, months: Map<string, string>): Promise<void> {
  for (const partner of scene.partners) await partner.pollAndBuy(true)
  for (const partner of scene.partners) await assertAnswered(scene.cluster, partner)
  await advance(scene, months)
  await assertMonths(scene, months)
  await assertSound(scene)
  await assertAll(scene)
}

const ABOUT_MAX_MS = 20_000

/** What its sessions are about, for anyone who reads of a round that hangs; and the last words of the hosts. */
async function aboutServer({ cluster, services, tickers }: Scene): Promise<string> {
  const words = [...services, ...tickers].map((host) => `${host.name}: ${host.said()}`)
  const rows = await cluster.ask<Record<string, unknown>>(
    `select pid, application_name as name, state, wait_event_type || ' ' || wait_event as waits,
       round(extract(epoch from clock_timestamp() - state_change)::numeric, 1) as s, left(query, 80) as query
     from pg_stat_activity where pid <> pg_backend_pid() and state is not null order by state_change`,
  )
  return [...words, ...rows.map((row) => Object.values(row).join(' | '))].join('\n')
}

function answeredIn({ partners }: Scene): Record<string, number> {
  const sum = (count: (partner: Partner) => number): number =>
    partners.reduce((total, partner) => total + count(partner), 0)
  return {
    calls: sum(({ calls }) => calls.counts.answered),
    'calls without an answer': sum(({ calls }) => calls.counts.unanswered),
    'calls put off': sum(({ calls }) => calls.counts.putOff),
    users: sum(({ users }) => users.size),
    plans: sum(({ plans }) => plans.size),
    deliveries: sum(({ counts }) => counts.deliveries),
    confirmations: sum(({ counts }) => counts.confirmed),
    'of them sent twice at once': sum(({ counts }) => counts.twice),
    'order ids claimed twice': sum(({ counts }) => counts.contested),
    'late reports': sum(({ counts }) => counts.late),
  }
}
