// Brings a partner's schedules in line with its status, hold and minimum: on a file all of them at once, and only those
// that differ.

import type { Following } from '../../shared/accounts.ts'
import { leastInstruction } from '../../sql/least-instruction.ts'
import { AWAKE } from '../../sql/may-fire.ts'
import { query } from '../../transaction.ts'

/** The plans of a partner, in both of its environments. */
const PLANS_OF_PARTNER =
  '(select plan_id from plans join tenants using (tenant_id) where partner_slug = :slug)'
const WAKE = query(
  `update schedules set awake = not awake where plan_id in ${PLANS_OF_PARTNER} and awake <> ${AWAKE}`,
)
const FLOOR = leastInstruction(':min_tranche', 'budget')
const SET_FLOOR = query(
  `update schedules set floor = ${FLOOR} where plan_id in ${PLANS_OF_PARTNER} and floor <> ${FLOOR}`,
)

export const FOLLOWING: Following = {
  begin: (tx, { partnerSlug: slug, status, held, minTranche }, seen) =>
    tx.together(
      tx.when(status !== seen.status || held !== seen.held, () => tx.run(WAKE, { slug })),
      tx.when(minTranche !== seen.minTranche, () => tx.run(SET_FLOOR, { slug, min_tranche: minTranche })),
    ),
  finish: async () => {},
}
