// What a route is: a method, a path, the shape of its body, and a handler from a checked call to a JSON answer.

import type { z } from 'zod'
import type { Listings } from '../billing/listing.ts'
import type { KeySeen } from '../core/key.ts'
import type { Caller } from '../core/partner.ts'
import type { Machine } from '../machine.ts'
import type { Store } from '../store/store.ts'

/** Where a webhook may be sent: `checkUrl` throws webhook_refused with the reason. */
export type UrlGuard = { checkUrl: (url: string) => Promise<void> }

export type Services = { store: Store; machine: Machine; guard: UrlGuard; listings: Listings }

export type Call<B, Q = unknown> = Services & {
  caller: KeySeen
  /** On whose behalf everything is asked: a write asks for its key again. */
  tenant: Caller
  body: B
  query: Q
  /** Path parameters, decoded. */
  params: Record<string, string>
  /** Runs a long read when the tenant's others are done. */
  alone: <T>(work: () => Promise<T>) => Promise<T>
  /** Adds a header to the answer. */
  setHeader: (name: string, value: string) => void
}

export type Route = {
  method: string
  path: string
  body: z.ZodType | null
  query: z.ZodType | null
  /** The shape of its answer, with 200. */
  answer: z.ZodType
  /** Its answer when that is the same for everyone, a key or none; null when it has to be worked out. */
  text: (() => string) | null
  handle: (call: Call<never, never>) => Promise<unknown>
}

type RouteOptions<B extends z.ZodType, Q extends z.ZodType, A extends z.ZodType> = {
  method: string
  path: string
  body?: B
  query?: Q
  answer: A
  handle: (call: Call<z.output<B>, z.output<Q>>) => Promise<z.output<A>>
}

export const route = <
  A extends z.ZodType,
  B extends z.ZodType = z.ZodNever,
  Q extends z.ZodType = z.ZodNever,
>(
  options: RouteOptions<B, Q, A>,
): Route => ({
  ...options,
  body: options.body ?? null,
  query: options.query ?? null,
  text: null,
  handle: options.handle as Route['handle'],
})
