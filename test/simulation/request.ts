// From an action to what the program is asked: ids in place of references, paths in place of routes.

import type { Action, Call, ExecutionRef, Lever, Pass } from './action.ts'
import { idempotencyKey, type State } from './model/state.ts'
import { orderFor, reportOf } from './model/venue.ts'

export type ApiRequest = {
  do: 'call'
  key: string
  method: string
  path: string
  body?: unknown
  pages?: true
}

/** An action that can be carried out by who knows nothing of the model. */
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
  | Extract<Action, { do: 'export' | 'rehearse' | 'backup' | 'restore' | 'flip' }>

/** Thrown when an action is about what is not there: in a trace that was cut down. */
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
  if ('tenant' in action && !state.tenants.has(action.tenant)) throw new Unresolvable(action.tenant)
}

function requestOf(state: State, call: Call): ApiRequest {
  if (!state.keys.has(call.key)) throw new Unresolvable(call.key)
  const asked = (method: string, path: string, body?: unknown): ApiRequest => ({
    do: 'call',
    key: call.key,
    method,
    path: `/partner/v1/${path}`,
    ...(body !== undefined && { body }),
  })
  switch (call.route) {
    case 'me':
      return asked('GET', 'me')
    case 'due':
      return asked('GET', 'executions/due')
    case 'user':
      return asked('POST', 'users', call.body)
    case 'setUser':
      return asked('PATCH', `users/${encodeURIComponent(call.user)}`, { status: call.status })
    case 'plan':
      return asked('POST', 'plans', call.body)
    case 'confirm': {
      const id = typeof call.of === 'string' ? call.of : executionOf(state, call.of).id
      return asked('POST', `executions/${id}/confirm`, call.body)
    }
    case 'hook':
      return asked('POST', 'webhooks', { url: call.url })
    case 'webhook':
      return asked('GET', 'webhooks')
    case 'unhook':
      return asked('DELETE', 'webhooks')
    case 'settle': {
      const execution = executionOf(state, call.of)
      const { order } = orderFor(state, execution, call.terms)
      return asked('POST', `executions/${execution.id}/confirm`, reportOf(order))
    }
    case 'month':
      return asked('GET', `billing/monthly?month=${call.month}`)
    case 'users':
      return { ...asked('GET', `billing/monthly/users?month=${call.month}&limit=${call.limit}`), pages: true }
    case 'trades':
      return { ...asked('GET', `trades?month=${call.month}&limit=${call.limit}`), pages: true }
  }
}
