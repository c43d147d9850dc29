// One account of a partner's at its venue, for both of its environments: the venue refuses a second order under an id
// that it knows, and answers with the first. What it sold is sold, whatever becomes of the database.

import type { Terms } from '../action.ts'
import { Difference } from '../difference.ts'
import type { ConfirmBody } from './executions.ts'
import { type Execution, idempotencyKey, type Order, presentOf, type State } from './state.ts'
import { iso } from './units.ts'

/** What an order is placed under, as the guide tells partners (docs/api.md). */
const clientOrderId = (execution: Execution): string =>
  `${execution.tenant.environment}:${idempotencyKey(execution)}`

/** The order that the venue has under the instruction's id, or the new one that it takes. */
export function orderFor(state: State, execution: Execution, terms: Terms): { id: string; order: Order } {
  const { partner, name } = execution.tenant
  const id = clientOrderId(execution)
  const order = state.venues.get(partner.slug)?.get(id) ?? {
    id: `venue ${id}`,
    tenant: name,
    execution: execution.id,
    restores: state.restores,
    ...terms,
    at: presentOf(state, execution.tenant),
  }
  return { id, order }
}

/**
 * Places the order of an instruction, and answers what the venue has under its id. That was bought for this
 * instruction, or for one that a restored database has forgotten: else it was never bought for this one.
 */
export function place(state: State, execution: Execution, terms: Terms): Order {
  const { id, order } = orderFor(state, execution, terms)
  const { partner, name } = execution.tenant
  const isForgotten = order.tenant === name && order.restores < state.restores
  if (order.execution !== execution.id && !isForgotten) {
    const other = `${order.tenant} ${order.execution}`
    throw new Difference(
      `${name} ${execution.id} is confirmed by the order ${id} of ${other}: nothing was bought for it`,
    )
  }
  const venue = state.venues.get(partner.slug) ?? new Map<string, Order>()
  state.venues.set(partner.slug, venue.set(id, order))
  return order
}

/** The report of an order, word for word the same each time. */
export const reportOf = ({ id, usd, btc, price, fee, at }: Order): ConfirmBody => ({
  partner_order_id: id,
  status: 'filled',
  usd_amount: usd,
  btc_amount: btc,
  execution_price: price,
  ...(fee !== null && { partner_fee_usd: fee }),
  executed_at: iso(at),
})
