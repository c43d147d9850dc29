// All that the model holds to be on record, line by line, as the program's own record is read.

import type { Record_ as Lines } from '../system/observed.ts'
import { isUsable } from './levers.ts'
import { idempotencyKey, type Report, type State } from './state.ts'
import { iso, isoOrNull } from './units.ts'

const line = (...cells: (string | number | bigint | boolean | null)[]): string => cells.join(' | ')

const reported = ({ order, status, executedAt, usd, btc, price, fee, reason }: Report): string =>
  line(order, status, isoOrNull(executedAt), usd, btc, price, fee, reason)

export function recordOf(state: State): Lines {
  const lines: Lines = { users: [], plans: [], windows: [], executions: [], late: [], webhooks: [], keys: [] }
  for (const { name, users, plans, executions, webhook } of state.tenants.values()) {
    for (const user of users.values()) {
      const { email, provider, consentVersion, consentAt, status, createdAt, updatedAt } = user
      lines.users.push(
        line(
          name,
          user.id,
          email,
          provider,
          consentVersion,
          iso(consentAt),
          status,
          iso(createdAt),
          iso(updatedAt),
        ),
      )
    }
    for (const plan of plans.values()) {
      const { amount, frequency, smart, startDate, status, createdAt, updatedAt } = plan
      const terms = line(amount, frequency, smart, iso(startDate), status, iso(createdAt), iso(updatedAt))
      lines.plans.push(line(name, plan.id, plan.user.id, terms))
      for (const { start, end, budget, reserved, spent, excess, released, closed } of plan.windows) {
        const money = line(budget, reserved, spent, excess, released)
        const fate = closed ? line(iso(closed.at), closed.reason) : 'current'
        lines.windows.push(line(name, plan.id, iso(start), iso(end), money, fate))
      }
    }
    for (const execution of executions) {
      const { id, amount, createdAt, status, deliveries, leasedUntil, cancelledAt, trade, adjustments } =
        execution
      const lease = line(deliveries, isoOrNull(leasedUntil), isoOrNull(cancelledAt))
      const fate = trade ? line(reported(trade.report), iso(trade.recordedAt)) : null
      const corrections = adjustments.map((one) =>
        line(one.number, one.usd, one.btc, iso(one.recordedAt), one.order),
      )
      lines.executions.push(
        line(
          name,
          id,
          idempotencyKey(execution),
          amount,
          iso(createdAt),
          status,
          lease,
          fate,
          corrections.join(';'),
        ),
      )
      for (const late of execution.late) {
        const { number, reason, receivedAt, accepted, decided } = late
        const state = line(reason, iso(receivedAt), accepted, decided, execution.uncounted)
        lines.late.push(line(number, id, reported(late.report), state))
      }
    }
    if (webhook) {
      const { url, status, createdAt, updatedAt, lastDeliveredAt, lastStatusCode, failures } = webhook
      const dates = line(iso(createdAt), iso(updatedAt), isoOrNull(lastDeliveredAt))
      lines.webhooks.push(line(name, url, status, dates, lastStatusCode, failures))
    }
  }
  for (const key of state.keys.values()) {
    const { tenant, createdAt, expiresAt, revokedAt } = key
    const dates = line(iso(createdAt), isoOrNull(expiresAt), isoOrNull(revokedAt))
    lines.keys.push(line(tenant.name, dates, isUsable(state, key)))
  }
  for (const of of Object.values(lines)) of.sort()
  return lines
}
