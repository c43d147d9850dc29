// Confirmations that are late, doubled, contradictory or somebody else's.

import type { Action, Call } from '../action.ts'
import type { ConfirmBody } from '../model/executions.ts'
import { type Execution, isOpen, type Report, type Tenant } from '../model/state.ts'
import { decimal, dollars, iso, monthOf } from '../model/units.ts'
import { amounts, bodyFor, confirmWith, keyOf, rewordPlan, type Scene } from './partner-moves.ts'

export function oddity(scene: Scene, tenant: Tenant): Action {
  const { happens, pick } = scene.chance
  if (tenant.executions.length === 0 || happens(0.05)) {
    const body = { partner_order_id: 'o', status: 'failed' } as const
    return { do: 'call', key: keyOf(scene, tenant), route: 'confirm', of: `exec_${'0'.repeat(32)}`, body }
  }
  // Each kind as often as the others, however few there are of it.
  const recent = tenant.executions.slice(-60)
  const kinds = [
    recent.filter(isOpen),
    recent.filter(({ trade }) => trade),
    recent.filter(({ trade, status }) => !trade && status === 'cancelled'),
  ].filter((kind) => kind.length > 0)
  const execution = pick(pick(kinds))
  if (happens(0.08)) return stranger(scene, execution)
  if (execution.trade) return ofRecorded(scene, execution, execution.trade.report)
  return isOpen(execution) ? ofOpen(scene, execution) : late(scene, execution)
}

/** Under the key of another tenant. */
function stranger(scene: Scene, execution: Execution): Call {
  const other = scene.chance.pick([...scene.state.tenants.values()])
  return { ...confirmWith(scene, execution, bodyFor(scene, execution, 'filled')), key: keyOf(scene, other) }
}

/** What was recorded once more, or something else. */
function ofRecorded(scene: Scene, execution: Execution, report: Report): Action {
  const { happens, pick } = scene.chance
  const again = confirmWith(scene, execution, bodyOf(report))
  if (happens(0.4)) return happens(0.3) ? { do: 'race', calls: [again, again] } : again
  if (happens(0.5))
    return confirmWith(scene, execution, bodyFor(scene, execution, pick(['filled', 'failed', 'partial'])))
  return confirmWith(scene, execution, withOneChange(scene, bodyOf(report)))
}

/** The same but for one value: what was recorded must not change by a hair. */
function withOneChange({ chance }: Scene, body: ConfirmBody): ConfirmBody {
  const { pick } = chance
  const executed_at = '2020-02-02T02:02:02.002Z'
  if (body.status === 'failed' || body.status === 'cancelled') {
    return { ...body, ...pick([{ failure_reason: 'another' }, { executed_at }]) }
  }
  const changes: Partial<ConfirmBody>[] = [
    { usd_amount: '0.01' },
    { btc_amount: '0.00000007' },
    { execution_price: '12345.67' },
    { partner_fee_usd: '9.99' },
    { executed_at },
    { status: body.status === 'filled' ? 'partial' : 'filled' },
  ]
  return { ...body, ...pick(changes) }
}

function ofOpen(scene: Scene, execution: Execution): Action {
  const { happens, pick } = scene.chance
  const body = bodyFor(scene, execution, 'filled')
  if (happens(0.3))
    return confirmWith(scene, execution, { ...body, ...amounts(scene, execution.amount + 100n) })
  const recorded = execution.tenant.executions.filter(({ trade }) => trade)
  if (recorded.length > 0 && happens(0.5)) {
    const order = pick(recorded).trade?.report.order ?? ''
    return confirmWith(scene, execution, { ...body, partner_order_id: order })
  }
  // The order of another tenant is nobody's business here.
  const elsewhere = scene.state.executions.filter(({ trade, tenant }) => trade && tenant !== execution.tenant)
  if (elsewhere.length > 0 && happens(0.3)) {
    const order = pick(elsewhere).trade?.report.order ?? ''
    return confirmWith(scene, execution, { ...body, partner_order_id: order })
  }
  const call = confirmWith(scene, execution, body)
  return happens(0.7) ? { do: 'race', calls: [call, rivalOf(scene, execution, call)] } : call
}

/** What decides differently on an execution than its confirmation does, at the same moment. */
function rivalOf(scene: Scene, execution: Execution, call: Call): Call {
  const { tenant, plan } = execution
  const key = keyOf(scene, tenant)
  return scene.chance.pick<Call>([
    call,
    confirmWith(scene, execution, bodyFor(scene, execution, 'failed')),
    rewordPlan(scene, plan, 'cancelled'),
    { do: 'call', key, route: 'setUser', user: plan.user.id, status: 'disabled' },
    { do: 'call', key, route: 'due' },
    { do: 'call', key, route: 'month', month: monthOf(scene.state.clock) },
  ])
}

/** A purchase after its execution was cancelled, told once or again. */
function late(scene: Scene, execution: Execution): Call {
  const { happens, pick } = scene.chance
  const known = execution.late.length > 0 && happens(0.4) ? bodyOf(pick(execution.late).report) : null
  return confirmWith(
    scene,
    execution,
    known ?? bodyFor(scene, execution, pick(['filled', 'partial', 'failed'])),
  )
}

/** A report as it was sent. */
export function bodyOf(report: Report): ConfirmBody {
  const { order, status, executedAt, usd, btc, price, fee, reason } = report
  const common = {
    partner_order_id: order,
    status,
    ...(executedAt !== null && { executed_at: iso(executedAt) }),
  }
  if (status === 'failed' || status === 'cancelled') {
    // What is ignored may be sent.
    return { ...common, ...(reason !== null && { failure_reason: reason }), usd_amount: '1.00' }
  }
  return {
    ...common,
    usd_amount: `${dollars(usd)}0`,
    btc_amount: decimal(btc, 8),
    execution_price: decimal(price, 2),
    ...(fee !== null && { partner_fee_usd: dollars(fee) }),
  }
}
