// What a fuzzer does, step by step: calls as they should be, calls spoiled in a few places, and time that passes.

import fc from 'fast-check'
import {
  hostileBytes,
  hostileHeader,
  hostileJson,
  hostileQuery,
  hostileSegment,
  strangeName,
} from './hostile.ts'
import { anyCall, type Call } from './operations.ts'

/** What is done to a request on its way. Places are counted around, so that every number is one. */
export type Mutation =
  | { kind: 'drop'; at: number }
  | { kind: 'value'; at: number; json: string }
  | { kind: 'add'; at: number; name: string; json: string }
  /** The same member once more, with another value, before the first one or after the last. */
  | { kind: 'repeat'; at: number; json: string; isFirst: boolean }
  | { kind: 'cut'; at: number }
  | { kind: 'insert'; at: number; bytes: Uint8Array }
  | { kind: 'body'; json: string }
  | { kind: 'header'; line: readonly [name: string, value: string] }
  | { kind: 'segment'; at: number; segment: string }
  | { kind: 'query'; query: string }
  | { kind: 'method'; method: string }
  | { kind: 'key'; key: Stranger }

/** Whose key it is, other than one of the two tenants that play. */
export type Stranger = 'none' | 'malformed' | 'unknown' | 'revoked' | 'disabled'

export type CallStep = {
  kind: 'call'
  call: Call
  isLive: boolean
  /** Takes executions from another partner's answers. */
  isForeign: boolean
  mutations: Mutation[]
  /** How many times it is sent, ahead of the answers. */
  times: number
  /** The lengths of the chunks of the body; null for a body of a stated length. */
  chunks: number[] | null
}
export type Step =
  | CallStep
  /** Fires a tranche of a plan of the test environment. */
  | { kind: 'fire'; plan: number }
  /** Takes the test environment through so many hours. */
  | { kind: 'advance'; hours: number; priceUsd: number }

/** As many as are answered at a time. */
const AHEAD_MAX = 16
const place = fc.nat({ max: 60_000 })
const METHODS = ['GET', 'HEAD', 'OPTIONS', 'POST', 'PUT', 'PATCH', 'DELETE', 'TRACE', 'PROPFIND', 'QUERY']

const mutation: fc.Arbitrary<Mutation> = fc.oneof(
  fc.record({ kind: fc.constant('drop' as const), at: place }),
  { arbitrary: fc.record({ kind: fc.constant('value' as const), at: place, json: hostileJson }), weight: 6 },
  fc.record({ kind: fc.constant('add' as const), at: place, name: strangeName, json: hostileJson }),
  fc.record({ kind: fc.constant('repeat' as const), at: place, json: hostileJson, isFirst: fc.boolean() }),
  fc.record({ kind: fc.constant('cut' as const), at: place }),
  fc.record({ kind: fc.constant('insert' as const), at: place, bytes: hostileBytes }),
  fc.record({ kind: fc.constant('body' as const), json: hostileJson }),
  { arbitrary: fc.record({ kind: fc.constant('header' as const), line: hostileHeader }), weight: 2 },
  {
    arbitrary: fc.record({ kind: fc.constant('segment' as const), at: place, segment: hostileSegment }),
    weight: 2,
  },
  { arbitrary: fc.record({ kind: fc.constant('query' as const), query: hostileQuery }), weight: 2 },
  fc.record({ kind: fc.constant('method' as const), method: fc.constantFrom(...METHODS) }),
  fc.record({
    kind: fc.constant('key' as const),
    key: fc.constantFrom<Stranger[]>('none', 'malformed', 'unknown', 'revoked', 'disabled'),
  }),
)

const callStep: fc.Arbitrary<CallStep> = fc.record({
  kind: fc.constant('call' as const),
  call: anyCall,
  isLive: fc.boolean(),
  isForeign: fc.integer({ min: 0, max: 15 }).map((n) => n === 15),
  mutations: fc.oneof(
    { arbitrary: fc.constant<Mutation[]>([]), weight: 3 },
    { arbitrary: fc.array(mutation, { minLength: 1, maxLength: 3 }), weight: 2 },
  ),
  times: fc.oneof(
    { arbitrary: fc.constant(1), weight: 2 },
    { arbitrary: fc.integer({ min: 2, max: AHEAD_MAX }), weight: 1 },
  ),
  chunks: fc.option(fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1, maxLength: 5 }), {
    freq: 5,
    nil: null,
  }),
})

const step: fc.Arbitrary<Step> = fc.oneof(
  { arbitrary: callStep, weight: 60 },
  { arbitrary: fc.record({ kind: fc.constant('fire' as const), plan: fc.nat({ max: 11 }) }), weight: 4 },
  {
    arbitrary: fc.record({
      kind: fc.constant('advance' as const),
      hours: fc.integer({ min: 1, max: 40 }),
      priceUsd: fc.integer({ min: 1, max: 100_000 }),
    }),
    weight: 1,
  },
)

const STEPS_MAX = 150

/** One play: a failing one is shrunk to the fewest and simplest steps that still fail. */
export const anyPlay: fc.Arbitrary<Step[]> = fc.array(step, {
  minLength: 1,
  maxLength: STEPS_MAX,
  size: 'max',
})
