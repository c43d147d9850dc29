// Events of a simulation, as plain values: a trace of them can be printed, cut down and replayed.

import { type ConfirmBody, orderFor, reportOfOrder } from './model/ledger.ts'
import type { PartnerChange, TierTerms } from './model/levers.ts'
import type { ReportKind } from './model/months.ts'
import type { PlanBody, UserBody } from './model/plans.ts'
import type { PurchaseTerms } from './model/purchases.ts'
import { idempotencyKey, type Order, type State } from './model/state.ts'

/** An execution, by the reference that its partner has: ids are new in every run. */
type ExecutionRef = { tenant: string; key: string }

/** The amounts and the price of a new order. */
export type Terms = Pick<Order, 'usd' | 'btc' | 'price' | 'fee'>

/** A single call of the API. */
export type Call = { do: 'call'; key: string } & (
  | { route: 'me' | 'due' | 'webhook' | 'unhook' | 'deliveries' | 'testHook' }
  | { route: 'user'; body: UserBody }
  | { route: 'setUser'; user: string; status: 'linked' | 'disabled' }
  | { route: 'userList'; limit: number }
  | { route: 'userOf'; user: string }
  | { route: 'plan'; body: PlanBody }
  | { route: 'confirm'; of: ExecutionRef | string; body: ConfirmBody }
  | { route: 'hook'; url: string }
  | { route: 'month'; month: string }
  | { route: 'users'; month: string; limit: number }
  | { route: 'trades'; month: string; limit: number }
  /** As the partner's program does: order at the venue, unless it has the order, and report the venue's result. */
  | { route: 'settle'; of: ExecutionRef; terms: Terms }
)

/** A single command of an operator. */
export type Lever = { do: 'lever' } & (
  | { lever: 'partner'; slug: string }
  | { lever: 'change'; slug: string; to: PartnerChange }
  | { lever: 'key'; tenant: string; label: string; life: number | null }
  | { lever: 'rotate'; key: string; label: string; overlap: number }
  | { lever: 'revoke'; key: string }
  | { lever: 'tier'; terms: TierTerms }
  | { lever: 'override'; slug: string; tier: string | null; from: string | null }
  | { lever: 'erase'; tenant: string; user: string }
  | { lever: 'reset'; tenant: string }
  | { lever: 'bringBack'; tenant: string; plan: string }
  | { lever: 'cancel' | 'accept' | 'dismiss'; of: ExecutionRef; number: number | null }
  | { lever: 'adjust'; of: ExecutionRef; usd: string; btc: string }
  | ({ lever: 'record' } & PurchaseTerms)
)

export type Receiver = 'takes' | 'fails' | 'hangs'

/** A single pass of the scheduler, and the wake-ups it sends. */
export type Pass = {
  do: 'pass'
  price: string | null
  /** The difference between the feed's time and the clock. */
  told: number | 'silent' | 'none'
  /** Another pass begins while this one waits for its price. */
  isOverlapped: boolean
  /** Calls made while it waits. */
  meanwhile: Call[]
  /** How the receivers of some tenants behave; the others accept every delivery. */
  receivers: Record<string, Receiver>
  /** The call of a tenant while its receiver hangs. */
  hanging: { tenant: string; call: Call } | null
}

/**
 * Where a process is killed, counted from 1: before or after a call to its database, or before or after a commit. A
 * message to a server has three such places: before it is sent, when it is sent, and when it is answered but not read.
 */
export type Death = { at: number; of: 'calls' | 'commits' }

/** Actions that may be interrupted. */
export type Interruptible = Call | Lever | Pass | { do: 'export'; month: string; report: ReportKind }

export type Action =
  | Call
  | Lever
  | Pass
  /** The clock advances, or is set back. */
  | { do: 'clock'; by: number }
  /** Calls of different tenants at the same moment. */
  | { do: 'together'; calls: Call[] }
  /** Two calls of one tenant at the same moment, perhaps equal ones: either may be first. */
  | { do: 'race'; calls: [Call, Call] }
  /** A call while another connection holds the write lock and writes. */
  | { do: 'locked'; call: Call }
  | { do: 'export'; month: string; report: ReportKind }
  /** The invoice of a month is credited, in a copy of the data. */
  | { do: 'credit'; slug: string; month: string }
  /** A pass that stores nothing. */
  | { do: 'rehearse'; price: string | null }
  /** A backup is made, and replaces the previous one. */
  | { do: 'backup' }
  /** The backup replaces the data, frozen: every write answered since is gone. */
  | { do: 'restore' }
  | { do: 'freeze' }
  | { do: 'resume' }
  | { do: 'killed'; death: Death; action: Interruptible }
  /** A connection ends there, by the server or by the network, and the process continues. */
  | { do: 'severed'; by: 'server' | 'network'; death: Death; action: Interruptible }

// From an action to a request of the program: ids instead of references, paths instead of routes.

export type ApiRequest = {
  do: 'call'
  key: string
  method: string
  path: string
  body?: unknown
  pages?: true
}

/** An action that can be performed without knowledge of the model. */
export type Deed =
  | ApiRequest
  | (Lever & { id?: string })
  | (Omit<Pass, 'meanwhile' | 'hanging'> & {
      meanwhile: ApiRequest[]
      hanging: { tenant: string; call: ApiRequest } | null
    })
  | { do: 'clock'; by: number }
  | { do: 'together'; calls: ApiRequest[]; order?: readonly number[] }
  | { do: 'locked'; call: ApiRequest }
  | Extract<Action, { do: 'export' | 'credit' | 'rehearse' | 'backup' | 'restore' | 'freeze' | 'resume' }>

/** Thrown when an action's object does not exist: in a trace that was cut down. */
export class Unresolvable extends Error {}

export function deedOf(state: State, action: Action): Deed {
  switch (action.do) {
    case 'call':
      return requestOf(state, action)
    case 'together':
      return { ...action, calls: action.calls.map((call) => requestOf(state, call)) }
    case 'race':
      return { do: 'together', calls: action.calls.map((call) => requestOf(state, call)) }
    case 'locked':
      return { ...action, call: requestOf(state, action.call) }
    case 'pass': {
      const { meanwhile, hanging } = action
      const requests = meanwhile.map((call) => requestOf(state, call))
      const beside = hanging && { ...hanging, call: requestOf(state, hanging.call) }
      return { ...action, meanwhile: requests, hanging: beside }
    }
    case 'lever': {
      resolveLever(state, action)
      return 'of' in action ? { ...action, id: executionOf(state, action.of).id } : action
    }
    case 'credit':
      if (!state.partners.has(action.slug)) throw new Unresolvable(action.slug)
      return action
    case 'restore':
      if (!state.saved) throw new Unresolvable('a backup')
      return action
    case 'killed':
    case 'severed':
      return deedOf(state, action.action)
    default:
      return action
  }
}

export function executionOf(state: State, { tenant, key }: ExecutionRef) {
  const found = state.tenants.get(tenant)?.executions.find((one) => idempotencyKey(one) === key)
  if (!found) throw new Unresolvable(key)
  return found
}

function resolveLever(state: State, action: Lever): void {
  if ('key' in action && !state.keys.has(action.key)) throw new Unresolvable(action.key)
  // The removed actions may include a restore, which made the label free.
  if ('label' in action && state.keys.has(action.label)) throw new Unresolvable(action.label)
  if ('tenant' in action && !state.tenants.has(action.tenant)) throw new Unresolvable(action.tenant)
}

const asked = (method: string, path: string, body?: unknown) => ({
  method,
  path: `/partner/v1/${path}`,
  ...(body !== undefined && { body }),
})

type Request = Omit<ApiRequest, 'do' | 'key'>
const REQUESTS: { [R in Call['route']]: (call: Call & { route: R }, state: State) => Request } = {
  me: () => asked('GET', 'me'),
  due: () => asked('GET', 'executions/due'),
  user: ({ body }) => asked('POST', 'users', body),
  setUser: ({ user, status }) => asked('PATCH', `users/${encodeURIComponent(user)}`, { status }),
  userList: ({ limit }) => ({ ...asked('GET', `users?limit=${limit}`), pages: true }),
  userOf: ({ user }) => asked('GET', `users/${encodeURIComponent(user)}`),
  plan: ({ body }) => asked('POST', 'plans', body),
  confirm: ({ of, body }, state) => {
    const id = typeof of === 'string' ? of : executionOf(state, of).id
    return asked('POST', `executions/${id}/confirm`, body)
  },
  hook: ({ url }) => asked('POST', 'webhooks', { url }),
  webhook: () => asked('GET', 'webhooks'),
  unhook: () => asked('DELETE', 'webhooks'),
  deliveries: () => asked('GET', 'webhooks/deliveries'),
  testHook: () => asked('POST', 'webhooks/test', {}),
  settle: ({ of, terms }, state) => {
    const execution = executionOf(state, of)
    const { order } = orderFor(state, execution, terms)
    return asked('POST', `executions/${execution.id}/confirm`, reportOfOrder(order))
  },
  month: ({ month }) => asked('GET', `billing/monthly?month=${month}`),
  users: ({ month, limit }) => ({
    ...asked('GET', `billing/monthly/users?month=${month}&limit=${limit}`),
    pages: true,
  }),
  trades: ({ month, limit }) => ({ ...asked('GET', `trades?month=${month}&limit=${limit}`), pages: true }),
}

function requestOf(state: State, call: Call): ApiRequest {
  if (!state.keys.has(call.key)) throw new Unresolvable(call.key)
  const request = REQUESTS[call.route] as (call: Call, state: State) => Request
  return { do: 'call', key: call.key, ...request(call, state) }
}

// Cuts a failing trace down to the actions that make it fail, so that a person can read it.

/** Plays a trace and answers its failure, or null. */
type Replay = (trace: readonly Action[]) => Promise<Error | null>

/**
 * Leaves out parts of a trace, ever smaller ones, as long as it fails in the same way. Stops when no single action can
 * be left out, or after `budgetMs`. Null when the trace alone does not fail that way.
 */
export async function shrink(
  trace: readonly Action[],
  failure: Error,
  { replay, budgetMs }: { replay: Replay; budgetMs: number },
): Promise<Action[] | null> {
  const until = performance.now() + budgetMs
  let kept = [...trace]
  const again = await replay(kept)
  // A replay checks more moments: it may find the first of several faults before the others.
  if (again === null || whatFailed(again) !== whatFailed(failure)) return null
  const fails = async (candidate: readonly Action[]) => {
    const error = await replay(candidate)
    return error !== null && kindOf(error) === kindOf(again)
  }
  for (let size = Math.ceil(kept.length / 2); ; size = Math.ceil(size / 2)) {
    for (let from = 0; from < kept.length && performance.now() < until; ) {
      const candidate = kept.toSpliced(from, size)
      if (await fails(candidate)) kept = candidate
      else from += size
    }
    if (size === 1 || performance.now() >= until) return kept
  }
}

/** The kind of a failure, without its details. */
const whatFailed = (error: Error): string => kindOf(error).split(':')[0] ?? ''

/** The kind of a failure and its details, without the parts that differ in each run. */
const kindOf = ({ message }: Error): string => (message.split('\n')[0] ?? '').replace(/exec_\w+|\d+/g, '#')
