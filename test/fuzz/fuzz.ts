// A run of the fuzzer: concurrent players, each with plays of its own from one seed, until so many requests are
// answered or the time is up.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import fc from 'fast-check'
import { revoke } from '../../src/core/key.ts'
import { price } from '../../src/core/money.ts'
import type { Environment, Tenant } from '../../src/core/partner.ts'
import { Problem } from '../../src/core/problem.ts'
import { advanceSandbox, fireInSandbox } from '../../src/engine/sandbox.ts'
import { issueKey } from '../../src/keys.ts'
import { machine } from '../../src/machine.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import type { Store } from '../../src/store/store.ts'
import { exchange } from '../http/raw.ts'
import { temporaryFolder } from '../support/database.ts'
import { type Started, startQuietServe } from '../support/process.ts'
import { AUDIT } from '../support/service.ts'
import { createOwners, judge, type Owners } from './oracle.ts'
import {
  anyPlay,
  bytesOf,
  type CallStep,
  knowledgeOf,
  learn,
  type Member,
  OPERATIONS,
  type Request,
  requestOf,
  type Source,
  type Step,
  type Stranger,
  USERS_PER_PLAY,
  type World,
  worldOf,
} from './requests.ts'

type FuzzOptions = {
  seed: number
  /** The run ends after so many, or at the end of the time. */
  requests: number
  minutes: number
  /** Called now and then with the progress. */
  onProgress?: (report: FuzzReport) => void
}
export type FuzzReport = {
  requests: number
  seconds: number
  /** How often each operation was answered with each status. */
  answers: Record<string, Record<number, number>>
}
/** The operations that succeeded in no play. */
export const neverSucceeded = ({ answers }: Pick<FuzzReport, 'answers'>): string[] =>
  OPERATIONS.map(({ operationId }) => operationId).filter((id) => !answers[id]?.[200])

type Ending = { after: (end: () => Promise<void> | void) => void }

/** Enough to keep the service busy from one other processor. */
const PLAYERS = 8
const PLAYS_PER_CHECK = 20
const PROGRESS_EVERY = 10_000

/** Throws the smallest play found whose answers are wrong. */
export async function fuzz(ending: Ending, options: FuzzOptions): Promise<FuzzReport> {
  const target = await startTarget(ending, PLAYERS)
  const tally = createTally(options)
  const owners = createOwners()
  const failures: Error[] = []
  const isOver = (): boolean => failures.length > 0 || tally.isOver()

  target.served.ended.then((code) => {
    if (!tally.isOver()) failures.unshift(new Error(`the service ended with ${code}: ${target.served.err()}`))
  })

  /** Each fuzzer has its own sequence of seeds. */
  async function search(n: number, play: Plays['play']): Promise<void> {
    for (let round = 0; !isOver(); round++) {
      const seed = options.seed + round * PLAYERS + n
      const failure = await searchOnce(async (planned) => (isOver() ? undefined : play(planned)), seed)
      if (failure) failures.push(failure)
    }
  }

  const all: Plays[] = target.players.map((player, n) => {
    const stage: Stage = { target, owners, note: tally.note }
    return createPlays(stage, player, () => all[(n + 1) % PLAYERS]?.last() ?? null)
  })
  await Promise.all(all.map(({ play }, n) => search(n, play)))
  // A service that has ended makes all calls fail; it may take a moment until its end is noticed.
  if (failures.length > 0) await wait(1_000)
  const [failure] = failures
  if (failure) throw failure
  await assertSound(target)
  return tally.report()
}

/** Plays until one play fails, which is then made as small as possible. */
async function searchOnce(play: Plays['play'], seed: number): Promise<Error | null> {
  const details = await fc.check(fc.asyncProperty(anyPlay, play), { seed, numRuns: PLAYS_PER_CHECK })
  if (!details.failed) return null
  return new Error(`Made smaller ${details.numShrinks} times:\n${String(details.errorInstance)}`)
}

async function assertSound({ served, store }: Target): Promise<void> {
  // A service that died at the last request is noticed only by another call.
  const isReady = await fetch(`${served.url}/readyz`).then(
    ({ ok }) => ok,
    () => false,
  )
  assert.ok(isReady && !served.hasEnded(), `the service is up: ${served.err()}`)
  assert.ok(!served.err().includes('"level":"error"'), served.err())
  assert.deepEqual(await store.findFaults(), [])
}

function createTally({ requests, minutes, onProgress }: FuzzOptions) {
  const started = performance.now()
  const report: FuzzReport = { requests: 0, seconds: 0, answers: {} }
  const seconds = (): number => (performance.now() - started) / 1_000
  return {
    isOver: () => report.requests >= requests || seconds() > minutes * 60,
    report: () => ({ ...report, seconds: seconds() }),
    note(operationId: string, status: number) {
      report.requests += 1
      const counts = report.answers[operationId] ?? {}
      report.answers[operationId] = counts
      counts[status] = (counts[status] ?? 0) + 1
      if (report.requests % PROGRESS_EVERY === 0) onProgress?.({ ...report, seconds: seconds() })
    },
  }
}

// The target: the executable in a process of its own, its database opened beside it, and keys of several tenants.

/** `tag` begins every id that this tenant chooses. */
export type Seat = { tenant: Tenant; key: string; tag: string }
type Player = Record<Environment, Seat>

type Target = {
  file: string
  served: Started & { url: string }
  store: Store
  players: Player[]
  /** The Authorization header of each kind of caller who is not a player. */
  strangers: Record<Stranger, string | null>
}

const ARGUMENTS = [
  ...['--tick-every', '1s', '--price-feed', 'static:60000'],
  ...['--webhook-allow-cidr', '127.0.0.0/8', '--log-level', 'warn'],
]

/** Everything ends, and is removed, with `ending`. */
async function startTarget(ending: Ending, playerCount: number): Promise<Target> {
  const cwd = temporaryFolder(ending)
  const file = join(cwd, 'tranche.db')
  const store = await openStore(file, { clock: machine.clock, create: true })
  ending.after(() => store.close())
  const players: Player[] = []
  for (let n = 0; n < playerCount; n++) {
    await store.addPartner({ partnerSlug: `player-${n}`, name: `Player ${n}` }, AUDIT)
    players.push({ test: await seat(store, n, 'test'), live: await seat(store, n, 'live') })
  }
  const strangers = await strangersOf(store)
  const served = await startQuietServe(ending, ARGUMENTS, { cwd })
  return { file, served, store, players, strangers }
}

async function seat(store: Store, n: number, environment: Environment): Promise<Seat> {
  const { tenant, secret } = await keyFor(store, `player-${n}`, environment)
  return { tenant, key: secret, tag: `zt${n}${environment}` }
}

async function keyFor(store: Store, slug: string, environment: Environment) {
  const tenant = await store.findTenant(slug, environment)
  if (!tenant) throw new Error(`no tenant ${slug} ${environment}`)
  const { record, secret } = issueKey({ tenant, label: null, lifetimeMs: null }, machine)
  await store.addKey(record, AUDIT)
  return { tenant, secret, record }
}

async function strangersOf(store: Store): Promise<Target['strangers']> {
  await store.addPartner({ partnerSlug: 'disabled', name: 'Disabled' }, AUDIT)
  const [revoked, disabled] = [
    await keyFor(store, 'disabled', 'test'),
    await keyFor(store, 'disabled', 'live'),
  ]
  const { keyId } = revoked.record
  await store.changeKey(keyId, (seen, time) => ({ key: revoke(seen, time), successor: null }), AUDIT)
  await store.changePartner('disabled', (seen) => ({ ...seen, status: 'disabled' as const }), AUDIT)
  const unknown = issueKey({ tenant: revoked.tenant, label: null, lifetimeMs: null }, machine).secret
  return {
    none: null,
    malformed: 'Basic YTpi',
    unknown: `Bearer ${unknown}`,
    revoked: `Bearer ${revoked.secret}`,
    disabled: `Bearer ${disabled.secret}`,
  }
}

// Plays the steps of one fuzzer against the service, and judges each answer as it comes.

const HOUR_MS = 3_600_000
const SHOWN_MAX = 1_000
/** Refusals of a step of time: no such plan, nothing for it to fire, another advance of another player. */
const EXPECTED = ['plan_not_found', 'sandbox_refused', 'database_in_use']

/** The refusals of a repeated call: a sandbox is moving or has nothing left, and waking a partner is limited. */
const REFUSED_AGAIN: Record<string, readonly number[]> = {
  advanceSandbox: [409, 429],
  fireSandboxTranche: [409, 429],
  testWebhook: [429],
}

type Stage = {
  target: Target
  owners: Owners
  /** Called with every answer. */
  note: (operationId: string, status: number) => void
}
/** The plays of one fuzzer; its neighbour takes foreign executions from `last`. */
type Plays = { play: (steps: readonly Step[]) => Promise<void>; last: () => World | null }

function createPlays(stage: Stage, player: Player, neighbour: () => World | null): Plays {
  const { target, owners } = stage
  let count = 0
  let calls = 0
  let last: World | null = null
  let trace: string[] = []

  async function send(world: World, step: CallStep): Promise<void> {
    calls += 1
    const executions = step.isForeign ? neighbour()?.executions : undefined
    const requestId = `${world.prefix}${calls}`
    const request = requestOf(step, { known: knowledgeOf(world, executions), requestId })
    const authorization = request.stranger ? target.strangers[request.stranger] : `Bearer ${world.key}`
    trace.push(show(request))
    for (let time = 0; time < step.times; time++) {
      const answer = await exchange(target.served.url, [bytesOf(request, authorization)])
      trace.push(`-> ${answer.status} ${answer.body.slice(0, SHOWN_MAX)}`)
      stage.note(operationIdOf(step), answer.status)
      const body = judge(request, answer, owners, world)
      if (answer.status === 200) learn(world, body)
      else if (time === 0) return
      else
        assert.ok(
          REFUSED_AGAIN[operationIdOf(step)]?.includes(answer.status),
          'what was done once is done again',
        )
    }
  }

  async function passTime(world: World, step: Exclude<Step, CallStep>): Promise<void> {
    trace.push(JSON.stringify(step))
    const { store } = target
    const options = { store, machine, tenant: world.tenant, audit: AUDIT }
    const work =
      step.kind === 'fire'
        ? fireInSandbox(knowledgeOf(world)('plan', step.plan), { ...options, price: null })
        : advanceSandbox({
            ...options,
            byMs: step.hours * HOUR_MS,
            price: price(`${step.priceUsd}`),
            onProgress: () => {},
          })
    await work.catch((error) => {
      if (!(error instanceof Problem && EXPECTED.includes(error.code))) throw error
    })
  }

  async function playAll(steps: readonly Step[]): Promise<void> {
    const test = worldOf(player.test, count)
    const live = worldOf(player.live, count)
    last = live
    for (const world of [test, live]) for (const step of OPENING) await send(world, step)
    for (const plan of numbers(USERS_PER_PLAY - 1)) await passTime(test, { kind: 'fire', plan })
    for (const step of steps) {
      if (step.kind === 'call') await send(step.isLive ? live : test, step)
      else await passTime(test, step)
    }
    // Ends the play, or the tranches of all earlier plays' users would accumulate.
    for (const step of CLOSING) await send(live, step)
    await target.store.resetSandbox(player.test.tenant, AUDIT)
  }

  return {
    last: () => last,
    async play(steps) {
      count += 1
      trace = []
      await playAll(steps).catch((error) => {
        throw new Error(`${trace.join('\n')}\n${String(error)}`)
      })
    },
  }
}

const operationIdOf = ({ call }: CallStep): string => OPERATIONS[call.operation]?.operationId ?? ''

/** A valid call. */
function sound(
  operationId: string,
  values: { path?: Member[]; body: Record<string, Source | string> },
): CallStep {
  const body = Object.entries(values.body).map(([name, value]) => ({
    name,
    value: typeof value === 'string' ? { text: value } : value,
  }))
  const operation = OPERATIONS.findIndex((each) => each.operationId === operationId)
  const call = { operation, path: values.path ?? [], query: [], body }
  return { kind: 'call', call, isLive: true, isForeign: false, mutations: [], times: 1 }
}

const user = (at: number): Source => ({ known: 'user', at })
const numbers = (count: number): number[] => Array.from({ length: count }, (_, at) => at)

/** Most users are linked and have a plan, so that later calls find something. */
const OPENING: readonly CallStep[] = numbers(USERS_PER_PLAY - 1).flatMap((at) => [
  sound('linkUser', {
    body: {
      partner_user_id: user(at),
      consent_accepted: 'true',
      consent_version: '"1"',
      consent_timestamp: '"2026-01-05"',
    },
  }),
  sound('putPlan', {
    body: {
      partner_user_id: user(at),
      partner_plan_id: { known: 'plan', at },
      amount_usd: '"60.00"',
      frequency: '"daily"',
    },
  }),
])
const CLOSING: readonly CallStep[] = numbers(USERS_PER_PLAY).map((at) =>
  sound('setUserStatus', {
    path: [{ name: 'partner_user_id', value: user(at) }],
    body: { status: '"disabled"' },
  }),
)

function show({ method, target, headers, body, stranger }: Request): string {
  const lines = headers.map(([name, value]) => `${name}: ${value}`)
  const text = body ? Buffer.from(body).toString() : ''
  return [`${method} ${target}`, ...(stranger ? [`as ${stranger}`] : []), ...lines, text]
    .map((line) => line.slice(0, SHOWN_MAX))
    .join('\n')
}
