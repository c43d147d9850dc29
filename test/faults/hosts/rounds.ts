// Rounds on a database that many hosts share: all of them work, one is struck, and every answered write must be stored.

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { monthOf } from '../../../src/core/time.ts'
import type { Fate } from '../../support/postgres-server.ts'
import { within } from '../../support/within.ts'
import { answersTo, assertAnswered, assertRules, assertWhole, type Partner } from '../partner.ts'
import { type End, type Host, openScene, type Scene } from './cluster.ts'

type Tally = { rounds: number; atWork: number; answersLost: number }
type Hosted = { tallies: Map<string, Tally>; answered: Record<string, number> }

/** A round that takes longer hangs somewhere. */
const ROUND_MAX_MS = 240_000
const LIVE_WORKERS = 3
const TEST_WORKERS = 2
const LEAD_MS = 100
/** After so many rounds everything is checked, and the sandbox advances by days. */
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

/** Runs rounds on one pair of servers. Throws with the round that failed and with the server's activity. */
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
  return { tallies, answered: answersTo(scene.partners) }
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
  for (const partner of scene.partners) await assertAnswered(scene.cluster.ask, partner)
}

const lostOf = ({ partners }: Scene): number =>
  partners.reduce((sum, { calls: { counts } }) => sum + counts.unanswered + counts.putOff, 0)

const DEADLOCKS = 'select from pg_stat_database where datname = current_database() and deadlocks > 0'

async function assertSound({ run, cluster }: Scene): Promise<void> {
  await assertRules(cluster.ask)
  assert.deepEqual(await cluster.ask(DEADLOCKS), [])
  const { ok, findings } = JSON.parse(await run(['check', '--json']))
  assert.ok(ok, JSON.stringify(findings))
}

async function assertAll(scene: Scene): Promise<void> {
  for (const partner of scene.partners) await assertWhole(scene.cluster.ask, partner)
}

/** Advances the sandbox by days, and compares the months that are over there with their earlier state. */
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
  for (const partner of scene.partners) await assertAnswered(scene.cluster.ask, partner)
  await advance(scene, months)
  await assertMonths(scene, months)
  await assertSound(scene)
  await assertAll(scene)
}

const ABOUT_MAX_MS = 20_000

/** The server's sessions, for a reader of a round that hangs; and the last output of the hosts. */
async function aboutServer({ cluster, services, tickers }: Scene): Promise<string> {
  const words = [...services, ...tickers].map((host) => `${host.name}: ${host.said()}`)
  const rows = await cluster.ask<Record<string, unknown>>(
    `select pid, application_name as name, state, wait_event_type || ' ' || wait_event as waits,
       round(extract(epoch from clock_timestamp() - state_change)::numeric, 1) as s, left(query, 80) as query
     from pg_stat_activity where pid <> pg_backend_pid() and state is not null order by state_change`,
  )
  return [...words, ...rows.map((row) => Object.values(row).join(' | '))].join('\n')
}

// Strikes at a database of many hosts while it works: at a service, a ticker, a session, the network, either server.

type Strike = {
  name: string
  /** How often in a deck of strikes. */
  times: number
  /**
   * Resolves when everything is restored. Answers whether the strike hit something in the middle of its work, if that
   * can be seen.
   */
  strike: (scene: Scene) => Promise<boolean>
}

const DEAD_MAX_MS = 60_000
/** How long something is stopped; one in so many times longer than the server tolerates an idle transaction. */
const STOPPED_MS = 600
const STOPPED_LONG_MS = 11_000
const LONG_ONE_IN = 25

const anyOf = <T>({ random }: Scene, of: readonly T[]): T => of[Math.floor(random() * of.length)] as T
const aWhile = ({ random }: Scene): Promise<void> => pause(50 + random() * STOPPED_MS)

async function standStill(scene: Scene, host: Host): Promise<boolean> {
  await host.ready()
  const child = host.child()
  child.kill('SIGSTOP')
  try {
    if (scene.random() < 1 / LONG_ONE_IN) await pause(STOPPED_LONG_MS)
    else await aWhile(scene)
  } finally {
    child.kill('SIGCONT')
    host.disturbedAt = performance.now()
  }
  return false
}

async function withoutStandby(scene: Scene, end: End): Promise<boolean> {
  await scene.cluster.withoutStandby(end, () => aWhile(scene))
  return false
}

/** Whether an unfinished pass exists. */
async function passIsOpen({ cluster }: Scene): Promise<boolean> {
  const rows = await cluster.ask(
    'select 1 from (select finished_at from ticks order by tick_id desc limit 1) t where finished_at is null',
  )
  return rows.length > 0
}

const FATES: readonly Fate[] = ['answer lost', 'never arrives']
const MET_MAX_MS = 2_000

export const STRIKES: readonly Strike[] = [
  { name: 'serve killed', times: 5, strike: async (scene) => anyOf(scene, scene.services).kill() },
  { name: 'serve stopped', times: 1, strike: (scene) => standStill(scene, anyOf(scene, scene.services)) },
  {
    name: 'ticker killed',
    times: 3,
    async strike(scene) {
      const killed = anyOf(scene, scene.tickers).kill()
      const isOpen = await passIsOpen(scene)
      return (await killed) && isOpen
    },
  },
  { name: 'ticker stopped', times: 2, strike: (scene) => standStill(scene, anyOf(scene, scene.tickers)) },
  {
    name: 'sessions ended',
    times: 3,
    async strike(scene) {
      const rows = await scene.cluster.ask<{ active: boolean }>(
        `select pg_terminate_backend(pid), state <> 'idle' as active from pg_stat_activity
         where application_name = 'tranche' and random() < $1`,
        [scene.random()],
      )
      return rows.some(({ active }) => active)
    },
  },
  {
    name: 'network cut',
    times: 3,
    async strike(scene) {
      if (scene.random() < 0.3) {
        scene.proxy.cut()
        return false
      }
      const met = scene.proxy.next(anyOf(scene, FATES)).then(() => true)
      return Promise.race([met, pause(MET_MAX_MS).then(() => false)])
    },
  },
  { name: 'primary killed', times: 2, strike: async ({ cluster }) => cluster.crash().then(() => false) },
  {
    name: 'primary stopped',
    times: 1,
    strike: async (scene) => scene.cluster.freeze(() => aWhile(scene)).then(() => false),
  },
  { name: 'standby stopped', times: 1, strike: (scene) => withoutStandby(scene, 'frozen') },
  { name: 'standby killed', times: 1, strike: (scene) => withoutStandby(scene, 'killed') },
  {
    name: 'failover',
    times: 1,
    strike: async (scene) => scene.cluster.failOver(anyOf(scene, ['killed', 'frozen'])).then(() => false),
  },
  {
    name: 'advance killed',
    times: 1,
    async strike(scene) {
      const started = scene.start(['sandbox', 'advance', 'acme', '2d', '--price', '60000'])
      await Promise.race([pause(scene.random() * STOPPED_MS), started.ended])
      started.child.kill('SIGKILL')
      return (await within(DEAD_MAX_MS, 'the advance is dead', started.ended)) === 'SIGKILL'
    },
  },
]

/** Each strike as often as its `times`, shuffled; the first of each before any second. */
function deck(random: () => number): Strike[] {
  const shuffled = (of: Strike[]): Strike[] =>
    of
      .map((one) => ({ one, at: random() }))
      .sort((a, b) => a.at - b.at)
      .map(({ one }) => one)
  const more = STRIKES.flatMap((one) => Array.from({ length: one.times - 1 }, () => one))
  return [...shuffled([...STRIKES]), ...shuffled(more)]
}
