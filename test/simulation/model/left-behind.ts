// What a process that died on a server leaves for the next one to do: schedules that do not have a partner's new
// minimum yet, and wake-ups that nobody has claimed (docs/decisions/commits.md#a-hold-of-many-plans). On a file there
// is neither.

import type { State, Tenant, WakeUp } from './state.ts'
import { least } from './units.ts'

/** Gives the running windows of a tenant its partner's minimum. */
export function follow(state: State, tenant: Tenant): void {
  for (const { timing } of tenant.plans.values())
    if (timing) timing.floor = least(tenant.partner.minTranche, timing.window.budget)
  state.behind.delete(tenant)
}

/**
 * The states in the middle of a change of a partner: it is in force, and the schedules of none of its tenants have
 * followed, or only those of the first. `before` and `after` are those around it.
 */
export function halfway(before: State, after: State): State[] {
  const changed = [...after.partners.values()].find(
    ({ slug, minTranche }) => before.partners.get(slug)?.minTranche !== minTranche,
  )
  if (!changed || !before.partners.has(changed.slug)) return []
  const none = structuredClone(after)
  for (const tenant of none.tenants.values()) {
    if (tenant.partner.slug !== changed.slug) continue
    none.behind.add(tenant)
    for (const { id, timing } of tenant.plans.values()) {
      const old = before.tenants.get(tenant.name)?.plans.get(id)?.timing
      if (timing && old) timing.floor = old.floor
    }
  }
  const some = structuredClone(none)
  const [first] = some.behind
  if (first) follow(some, first)
  return [none, some]
}

/** Does what a change of a partner left behind, a tenant in each transaction. */
export function* followAll(state: State): Generator<void, void> {
  for (const tenant of state.behind) {
    follow(state, tenant)
    yield
  }
}

/**
 * Of the wake-ups that passes which died may have left to this one, those that it has sent: `sent` are the tenants and
 * earliest executions that it announced. They go to the registration that there is now. Null when it sent some of a
 * pass and withheld others.
 */
export function takenOver(
  { left }: State,
  sent: readonly { tenant: string; earliest: string; count: number }[],
): WakeUp[] | null {
  const isSent = ({ tenant, earliest, count }: WakeUp): boolean =>
    sent.some((one) => one.tenant === tenant.name && one.earliest === earliest && one.count === count)
  const taken: WakeUp[] = []
  for (const ofPass of left) {
    const [some, others] = [ofPass.filter(isSent), ofPass.filter((one) => !isSent(one))]
    if (some.length > 0 && others.some(isOwed)) return null
    taken.push(...asSentNow(some))
  }
  return taken
}

const hasReceiver = ({ tenant }: WakeUp): boolean => tenant.webhook?.status === 'active'
const isOwed = (one: WakeUp): boolean =>
  hasReceiver(one) && one.tenant.webhook?.registration === one.registration
const asSentNow = (wakeUps: readonly WakeUp[]): WakeUp[] =>
  wakeUps.filter(hasReceiver).map((one) => ({
    ...one,
    registration: one.tenant.webhook?.registration ?? one.registration,
  }))

/** The wake-ups that passes which died have left, as the next one would send them. */
export const leftNow = ({ left }: State): WakeUp[] => asSentNow(left.flat())
