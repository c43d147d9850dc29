// Plays the steps of one fuzzer against the service, each answer judged as it comes.

import assert from 'node:assert/strict'
import { price } from '../../src/core/money.ts'
import { Problem } from '../../src/core/problem.ts'
import { advanceSandbox, fireInSandbox } from '../../src/engine/sandbox.ts'
import { machine } from '../../src/machine.ts'
import { AUDIT } from '../support/service.ts'
import type { Client } from './client.ts'
import { type Member, OPERATIONS, type Source } from './operations.ts'
import { judge, type Owners } from './oracle.ts'
import { bytesOf, type Request, requestOf } from './requests.ts'
import type { CallStep, Step } from './steps.ts'
import type { Player, Target } from './target.ts'
import { knowledgeOf, learn, USERS_PER_PLAY, type World, worldOf } from './world.ts'

const HOUR_MS = 3_600_000
const SHOWN_MAX = 1_000
/** What a step of time may run into: no such plan, nothing for it to fire, another advance of another player. */
const EXPECTED = ['plan_not_found', 'sandbox_refused', 'database_in_use']

export type Stage = {
  target: Target
  client: Client
  owners: Owners
  /** Told of every answer. */
  note: (operationId: string, status: number) => void
}
/** One fuzzer's plays; `last` is what its neighbour looks into for executions that are not its own. */
export type Plays = { play: (steps: readonly Step[]) => Promise<void>; last: () => World | null }

export function createPlays(stage: Stage, player: Player, neighbour: () => World | null): Plays {
  const { target, client, owners } = stage
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
    const bytes = bytesOf(request, { authorization, chunks: step.chunks })
    const answers = await client.send(bytes, { isHead: request.method === 'HEAD', times: step.times })
    for (const answer of answers) {
      trace.push(`-> ${answer.status} ${answer.body.slice(0, SHOWN_MAX)}`)
      stage.note(operationIdOf(step), answer.status)
      const body = judge(request, answer, owners, world)
      if (answer.status === 200) learn(world, body)
    }
    if (answers[0]?.status !== 200) return
    // Every call is safe to send again.
    for (const { status } of answers) assert.equal(status, 200, 'what was done once is done again')
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
    // Or what fires for the users of all plays would grow from play to play.
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

/** A call as it should be. */
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
  return { kind: 'call', call, isLive: true, isForeign: false, mutations: [], times: 1, chunks: null }
}

const user = (at: number): Source => ({ known: 'user', at })
const numbers = (count: number): number[] => Array.from({ length: count }, (_, at) => at)

/** Most users are linked and have a plan, so that the calls that follow find something. */
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
