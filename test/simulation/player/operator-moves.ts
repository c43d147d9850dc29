// What an operator does, with reason or without.

import type { Lever } from '../action.ts'
import { isUsable } from '../model/levers.ts'
import type { Execution, Partner } from '../model/state.ts'
import { DAY, decimal, HOUR, monthOf } from '../model/units.ts'
import { refOf, type Scene } from './partner-moves.ts'

export function lever(scene: Scene): Lever {
  const { state, chance } = scene
  const { pick, happens } = chance
  const partner = pick([...state.partners.values()])
  const late = state.executions.filter((one) => one.late.some(({ decided }) => !decided))
  if (late.length > 0 && happens(0.3)) return decide(scene, pick(late))
  // What is stopped usually goes on later.
  if ((partner.status === 'disabled' || partner.held) && happens(0.7)) {
    return { do: 'lever', lever: 'change', slug: partner.slug, to: { status: 'active', held: false } }
  }
  return pick([partnerLever, executionLever, executionLever, keyLever, keyLever, tierLever, eraseLever])(
    scene,
    partner,
  )
}

function decide({ chance }: Scene, execution: Execution): Lever {
  const { happens, pick } = chance
  const number = happens(0.6) ? pick(execution.late).number : null
  return { do: 'lever', lever: happens(0.8) ? 'accept' : 'dismiss', of: refOf(execution), number }
}

function partnerLever({ chance }: Scene, { slug }: Partner): Lever {
  const { pick } = chance
  const to = pick([
    { held: true },
    { status: 'disabled' as const },
    { minTranche: pick(['1.00', '5.00', '10.00', '25.00']) },
  ])
  return { do: 'lever', lever: 'change', slug, to }
}

function executionLever(scene: Scene): Lever {
  const { state, chance } = scene
  const { happens, between, pick } = chance
  if (state.executions.length === 0) return keyLever(scene)
  const execution = pick(state.executions.slice(-60))
  if (!execution.trade && happens(0.5)) {
    return { do: 'lever', lever: 'cancel', of: refOf(execution), number: null }
  }
  const usd = happens(0.2) ? 0n : (execution.amount * BigInt(between(1, 15))) / 10n
  const btc = usd === 0n ? '0' : `0.${String(between(1, 99_999_999)).padStart(8, '0')}`
  return { do: 'lever', lever: 'adjust', of: refOf(execution), usd: decimal(usd, 2), btc }
}

function keyLever({ state, chance }: Scene): Lever {
  const { happens, pick, between } = chance
  const keys = [...state.keys.values()].filter(({ isLost }) => !isLost)
  const label = `k${state.keys.size + 1}`
  const tenant = pick([...state.tenants.values()])
  const isLocked = !keys.some((key) => key.tenant === tenant && isUsable(state, key))
  if (isLocked || keys.length === 0 || happens(0.3)) {
    const life = happens(0.3) ? between(1, 60) * DAY : null
    return { do: 'lever', lever: 'key', tenant: tenant.name, label, life }
  }
  const key = pick(keys).label
  if (happens(0.5)) return { do: 'lever', lever: 'revoke', key }
  return { do: 'lever', lever: 'rotate', key, label, overlap: between(0, 48) * HOUR }
}

function tierLever({ state, chance }: Scene, { slug }: Partner): Lever {
  const { pick, happens, between } = chance
  const from = happens(0.5) ? null : monthOf(state.clock + between(-40, 60) * DAY)
  if (happens(0.5)) {
    return {
      do: 'lever',
      lever: 'override',
      slug,
      tier: pick(['starter', 'scale', 'own', 'vip', null]),
      from,
    }
  }
  const amount = (most: number) => (happens(0.5) ? `${between(0, most)}.${pick(['00', '07'])}` : undefined)
  const name = pick(['starter', 'own', 'growth', 'other', 'vip'])
  // Several begin at the same volume; one has none, and is for overrides.
  const volume = name === 'vip' ? undefined : happens(0.3) ? pick(['0.00', '100.00']) : amount(5_000)
  const [perUser, minimum] = [amount(2), amount(300)]
  return {
    do: 'lever',
    lever: 'tier',
    terms: {
      name,
      from,
      bps: between(0, 120),
      ...(volume !== undefined && { volume }),
      ...(perUser !== undefined && { perUser }),
      ...(minimum !== undefined && { minimum }),
    },
  }
}

function eraseLever({ state, chance }: Scene): Lever {
  const tenant = chance.pick([...state.tenants.values()])
  const users = [...tenant.users.keys()]
  const user = users.length > 0 ? chance.pick(users) : 'nobody'
  return { do: 'lever', lever: 'erase', tenant: tenant.name, user }
}
