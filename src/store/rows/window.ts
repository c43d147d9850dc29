// A window: the row and the value, and back.

import type { Usd } from '../../core/money.ts'
import type { CloseReason, Opening, Window } from '../../core/window.ts'
import { withDigest } from '../digests.ts'
import { instant } from './instant.ts'

export type WindowRow = {
  window_id: bigint
  plan_id: bigint
  window_start: bigint
  window_end: bigint
  budget: bigint
  reserved: bigint
  spent: bigint
  excess: bigint
  released: bigint
  closed_at: bigint | null
  close_reason: string | null
}
export const windowOf = (row: WindowRow): Window => ({
  windowId: Number(row.window_id),
  planId: Number(row.plan_id),
  start: instant(row.window_start),
  end: instant(row.window_end),
  budget: row.budget as Usd,
  reserved: row.reserved as Usd,
  spent: row.spent as Usd,
  excess: row.excess as Usd,
  released: row.released as Usd,
  closed:
    row.closed_at === null ? null : { at: instant(row.closed_at), reason: row.close_reason as CloseReason },
})
/** Of a window that is opened. */
export const openingParams = (planId: number, { start, end, budget }: Opening) =>
  withDigest('windows', { plan_id: planId, window_start: start, window_end: end, budget })
export const amountParams = (window: Window) => ({
  window_id: window.windowId,
  reserved: window.reserved,
  spent: window.spent,
  excess: window.excess,
  released: window.released,
})
export const closingParams = ({ at, reason }: NonNullable<Window['closed']>) => ({
  closed_at: at,
  close_reason: reason,
})
