// Buying windows and their ledger. A window is opened with a budget; tranches reserve from it, confirmations turn
// reservations into spending or give them back. All amounts stay with the window that reserved them.

import { assert } from './assert.ts'
import { type Frequency, WINDOW_MS } from './frequency.ts'
import { type Instant, plus } from './instant.ts'
import { lesser, type Usd, ZERO_USD } from './money.ts'

export type CloseReason = 'ended' | 'reset' | 'cancelled'

export type Window = {
  windowId: number
  planId: number
  start: Instant
  end: Instant
  budget: Usd
  /** The sum of its open executions. */
  reserved: Usd
  /** What its trades and adjustments took of the budget: `spent + excess` is what they add up to. */
  spent: Usd
  /** What was bought beyond a reservation or beyond the budget, and is outside it by an operator's decision. */
  excess: Usd
  /** What can no longer be spent: zero while the window is current, the whole rest once it is closed. */
  released: Usd
  closed: { at: Instant; reason: CloseReason } | null
}

/** A window about to be opened; the store gives it its id. */
export type Opening = { start: Instant; end: Instant; budget: Usd }

/** A window that has just been opened: all of its budget is there. */
export const opened = (
  { start, end, budget }: Opening,
  ids: { windowId: number; planId: number },
): Window => ({
  ...ids,
  start,
  end,
  budget,
  reserved: ZERO_USD,
  spent: ZERO_USD,
  excess: ZERO_USD,
  released: ZERO_USD,
  closed: null,
})

/** What the current window can still put into tranches. */
export const unreserved = (window: Window): Usd => (window.budget - window.reserved - window.spent) as Usd

export function reserve(window: Window, amount: Usd): Window {
  assert(window.closed === null, 'only the current window reserves')
  return checked({ ...window, reserved: (window.reserved + amount) as Usd })
}

/** What no reservation and no trade of a window claims: still to be spent, or released once it is closed. */
export const leftOf = (window: Window): Usd => (window.closed ? window.released : unreserved(window))

/**
 * Settles a reservation: `spent` of it was spent (zero for a failure), the rest goes back to this very window, where it
 * covers an excess first.
 */
export function settle(window: Window, reservation: Usd, spent: Usd): Window {
  assert(0n <= spent && spent <= reservation, 'a fill is at most its reservation')
  const refund = reservation - spent
  const covered = lesser(refund, window.excess)
  return checked({
    ...window,
    reserved: (window.reserved - reservation) as Usd,
    spent: (window.spent + spent + covered) as Usd,
    excess: (window.excess - covered) as Usd,
    released: window.closed ? ((window.released + refund - covered) as Usd) : ZERO_USD,
  })
}

/**
 * Enters that an execution without an open reservation comes to `after` and no longer to `before`. More is taken from
 * what the window has left, as far as that and the execution's own reservation go; what is beyond either is excess.
 * Less takes the window's excess away first, and goes back to the window only after that.
 */
export function adjustSpent(
  window: Window,
  { before, after, reservation }: { before: Usd; after: Usd; reservation: Usd },
): Window {
  const difference = after - before
  if (difference < 0n) return takeBack(window, -difference as Usd)
  const within = lesser(after, reservation) - lesser(before, reservation)
  const taken = lesser(within, leftOf(window))
  return checked({
    ...window,
    spent: (window.spent + taken) as Usd,
    excess: (window.excess + difference - taken) as Usd,
    released: window.closed ? ((window.released - taken) as Usd) : ZERO_USD,
  })
}

function takeBack(window: Window, amount: Usd): Window {
  const covered = lesser(amount, window.excess)
  const back = amount - covered
  return checked({
    ...window,
    spent: (window.spent - back) as Usd,
    excess: (window.excess - covered) as Usd,
    released: window.closed ? ((window.released + back) as Usd) : ZERO_USD,
  })
}

/** Closes a window: what is neither spent nor reserved is released. */
export function close(window: Window, at: Instant, reason: CloseReason): Window {
  assert(window.closed === null, 'a window closes once')
  return checked({ ...window, released: unreserved(window), closed: { at, reason } })
}

export function opening(start: Instant, frequency: Frequency, budget: Usd): Opening {
  return { start, end: plus(start, WINDOW_MS[frequency]), budget }
}

function checked(window: Window): Window {
  const { budget, reserved, spent, excess, released } = window
  assert(reserved >= 0n && spent >= 0n && excess >= 0n && released >= 0n, 'no ledger column is negative')
  assert(reserved + spent + released <= budget, 'reserved + spent + released is at most the budget')
  assert(
    !window.closed || reserved + spent + released === budget,
    'a closed window accounts for its whole budget',
  )
  return window
}
