// A route: a method, a path, the shape of its body, and a handler from a checked call to a JSON answer.

import type { z } from 'zod'
import type { Listings } from '../billing/statement.ts'
import type { KeyFacts } from '../core/key.ts'
import type { Caller, Tenant } from '../core/partner.ts'
import type { Attempt, WakeUp, Webhook } from '../core/webhook.ts'
import type { Machine } from '../machine.ts'
import type { Store } from '../store/store.ts'

/** Where a webhook may be sent: `checkUrl` throws webhook_refused with the reason. */
type UrlGuard = { checkUrl: (url: string) => Promise<void> }

/** Sends a wake-up to a webhook, behind that guard. */
type SendWakeUp = (sent: WakeUp & { webhook: Webhook }) => Promise<Attempt>

/** The store's methods that take a tenant first; a partner's call can use no other. */
type AskedFor<S> = {
  [M in keyof S]: S[M] extends (...args: infer A) => unknown ? (A[0] extends Tenant ? S[M] : never) : never
}

/**
 * The store's methods that a partner's call may use. Each tenant's calls wait in a lane of their own, so that its crowd
 * delays nobody else.
 */
export type CallStore = AskedFor<
  Pick<
    Store,
    | 'changeUser'
    | 'readUser'
    | 'readUsers'
    | 'changePlan'
    | 'readPlan'
    | 'readPlans'
    | 'deliverDue'
    | 'confirmExecution'
    | 'keepUnknownFill'
    | 'readExecutions'
    | 'fixTenantPeriod'
    | 'readTenantLines'
    | 'readActivity'
    | 'readTerms'
    | 'findWebhook'
    | 'changeWebhook'
    | 'deleteWebhook'
    | 'listDeliveries'
    | 'readyToTest'
    | 'noteTest'
  >
>

export type Services = {
  store: CallStore
  machine: Machine
  guard: UrlGuard
  send: SendWakeUp
  listings: Listings
}

export type Call<B, Q = unknown, P extends string = string> = Services & {
  caller: KeyFacts
  /** The tenant of the call, with its key, which a write checks again. */
  tenant: Caller
  body: B
  query: Q
  params: Record<P, string>
  /** Runs a long read after the tenant's earlier ones. */
  alone: <T>(work: () => Promise<T>) => Promise<T>
  /** Runs work that waits for somebody else, unless the tenant already has such work under way. */
  once: <T>(work: () => Promise<T>) => Promise<T>
  setHeader: (name: string, value: string) => void
}

/** The names of the parameters of a path, as its route writes them: `:partner_user_id`. */
type ParametersOf<Path extends string> = Path extends `${string}/:${infer Name}/${infer Rest}`
  ? Name | ParametersOf<`/${Rest}`>
  : Path extends `${string}/:${infer Name}`
    ? Name
    : never

export type Route = {
  method: string
  path: string
  body: z.ZodType | null
  query: z.ZodType | null
  fields: ReadonlySet<string>
  parameters: ReadonlySet<string>
  keys: 'all' | 'test'
  answer: z.ZodType
  /** An answer that is the same for everyone: kept as bytes, because encoding a large text takes long. */
  ready: (() => Uint8Array) | null
  handle: (call: Call<never, never>) => Promise<unknown>
}

type RouteOptions<P extends string, B extends z.ZodType, Q extends z.ZodType, A extends z.ZodType> = {
  method: string
  path: P
  body?: B
  /** The members of a body whose schema is not an object, because it depends on one of them. */
  fields?: readonly string[]
  query?: Q
  /** `test` for test keys only; all keys by default. */
  keys?: 'test'
  answer: A
  handle: (call: Call<z.output<B>, z.output<Q>, ParametersOf<P>>) => Promise<z.output<A>>
}

export const route = <
  P extends string,
  A extends z.ZodType,
  B extends z.ZodType = z.ZodNever,
  Q extends z.ZodType = z.ZodNever,
>(
  options: RouteOptions<P, B, Q, A>,
): Route => ({
  ...options,
  body: options.body ?? null,
  query: options.query ?? null,
  fields: new Set(options.fields ?? membersOf(options.body)),
  parameters: new Set(membersOf(options.query)),
  keys: options.keys ?? 'all',
  ready: null,
  handle: options.handle as Route['handle'],
})

const membersOf = (schema: z.ZodType | undefined): string[] =>
  schema && 'shape' in schema ? Object.keys((schema as z.ZodObject).shape) : []
