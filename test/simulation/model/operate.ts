// What the model makes of an operator's command: the code it is refused with, or null.

import type { Lever } from '../action.ts'
import { executionOf } from '../request.ts'
import { adjust } from './corrections.ts'
import { acceptLate, dismissLate } from './late-fills.ts'
import {
  addPartner,
  bringBack,
  cancelExecution,
  changePartner,
  createKey,
  eraseUser,
  type Refusal,
  resetSandbox,
  revokeKey,
  rotateKey,
  setOverride,
  setTier,
} from './levers.ts'
import type { Key, State, Tenant } from './state.ts'
import { units } from './units.ts'

export function operate(state: State, action: Lever): Refusal {
  switch (action.lever) {
    case 'partner':
      return addPartner(state, action.slug)
    case 'change': {
      const { minTranche } = action.to
      return changePartner(state, action.slug, action.to, minTranche === undefined ? null : units(minTranche))
    }
    case 'key':
      return createKey(state, tenantOf(state, action.tenant), action)
    case 'rotate':
      return rotateKey(state, keyOf(state, action.key), action)
    case 'revoke':
      return revokeKey(state, keyOf(state, action.key))
    case 'tier': {
      const { volume, perUser, minimum } = action.terms
      const amount = (text: string | undefined) => (text === undefined ? null : units(text))
      const amounts = { volume: amount(volume), perUser: amount(perUser), minimum: amount(minimum) }
      return setTier(state, action.terms, amounts)
    }
    case 'override':
      return setOverride(state, action.slug, action.tier, action.from)
    case 'reset':
      return resetSandbox(state, tenantOf(state, action.tenant))
    case 'erase':
      return eraseUser(state, tenantOf(state, action.tenant), action.user)
    case 'bringBack':
      return bringBack(state, tenantOf(state, action.tenant), action.plan)
    case 'cancel':
      return cancelExecution(state, executionOf(state, action.of))
    case 'accept':
      return acceptLate(state, executionOf(state, action.of), action.number)
    case 'dismiss':
      return dismissLate(state, executionOf(state, action.of), action.number)
    case 'adjust': {
      const right = { usd: units(action.usd), btc: units(action.btc), reason: 'simulated' }
      return adjust(state, executionOf(state, action.of), right)
    }
  }
}

function tenantOf(state: State, name: string): Tenant {
  const tenant = state.tenants.get(name)
  if (!tenant) throw new Error(`there is no tenant ${name}`)
  return tenant
}

function keyOf(state: State, label: string): Key {
  const key = state.keys.get(label)
  if (!key) throw new Error(`there is no key ${label}`)
  return key
}
