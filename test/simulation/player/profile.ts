// What kind of world a seed is: how many partners, how busy, how often the scheduler runs, and what goes wrong.

import type { Chance } from '../chance.ts'
import { DAY, HOUR, MINUTE } from '../model/units.ts'

export type Profile = {
  start: number
  steps: number
  partners: number
  plansEach: number
  /** From one pass to the next, as a rule. */
  cadence: number
  frequencies: readonly ('daily' | 'weekly' | 'bi-weekly')[]
  amounts: readonly string[]
  feed: 'none' | 'static' | 'walk'
  /**
   * Nobody sets the clock back, and no report is drawn up in the very instant of a record: a sandbox that was begun
   * anew keeps a time of its own, which then is that of all others.
   */
  isSteady: boolean
  /** How likely a purchase is made at a venue that knows its orders. */
  venue: number
  /** How likely, in a step: */
  odds: {
    /** that a tenant with something due polls */
    polls: number
    /** that a delivered execution is confirmed at once */
    confirms: number
    /** that what is confirmed is that nothing was bought */
    fails: number
    /** that a tenant's plans, users or webhook change */
    changes: number
    /** that somebody sends what will be refused or was sent before */
    oddities: number
    /** that an operator does something */
    levers: number
    /** that the clock is set, a tick left out or doubled, the feed silent */
    troubles: number
    /** that somebody reads the month */
    reports: number
    /** that a backup is made, or put back */
    keeps: number
    /** that bits of a copy flip */
    flips: number
    /** that a sandbox is begun anew, where the clock is steady */
    resets: number
    /** that the clock stops at an instant that matters */
    notable: number
  }
}

const SELDOM = { keeps: 0.004, flips: 0.002, resets: 0.01 }
const OFTEN = { keeps: 0.02, flips: 0.004, resets: 0.05 }
const QUIET = {
  changes: 0.03,
  oddities: 0.02,
  levers: 0.05,
  troubles: 0.02,
  reports: 0.05,
  notable: 0.1,
  ...SELDOM,
}
const WILD = {
  changes: 0.3,
  oddities: 0.3,
  levers: 0.4,
  troubles: 0.15,
  reports: 0.3,
  notable: 0.4,
  ...OFTEN,
}

/** Many partners who buy seldom, or a few in every kind of trouble. */
export function profileOf(chance: Chance): Profile {
  const { happens, pick, between } = chance
  const isBroad = happens(0.45)
  const month = Date.UTC(pick([2023, 2024, 2026]), between(0, 11))
  if (isBroad) {
    return {
      start: month + between(0, 30 * 24) * HOUR,
      steps: between(20, 40),
      partners: between(20, 50),
      plansEach: pick([0.6, 1]),
      cadence: pick([DAY, DAY, 12 * HOUR, 2 * DAY]),
      frequencies: pick([['weekly', 'bi-weekly'], ['bi-weekly'], ['daily', 'weekly', 'bi-weekly']]),
      amounts: ['5.00', '9.99', '20.00', '60.00', '333.33'],
      feed: pick(['none', 'static', 'walk']),
      isSteady: happens(0.4),
      venue: pick([0, 0.8]),
      odds: { polls: pick([0.5, 0.9]), confirms: 0.9, fails: 0.1, ...QUIET },
    }
  }
  const steps = between(30, 120)
  const cadence = pick([MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, HOUR, 4 * HOUR, 6 * HOUR, DAY])
  return {
    // A month ends while it lasts.
    start: month - between(0, steps) * cadence - between(0, HOUR),
    steps,
    partners: between(1, 4),
    plansEach: between(1, 6),
    cadence,
    frequencies: ['daily', 'daily', 'weekly', 'bi-weekly'],
    amounts: ['1.00', '5.00', '12.34', '60.00', '333.33', '1000.01', '1000000.00'],
    feed: pick(['none', 'static', 'walk', 'walk']),
    isSteady: happens(0.4),
    venue: pick([0, 0.8]),
    // Some venues fail whatever they are sent, promptly.
    odds: happens(0.2)
      ? { polls: 1, confirms: 1, fails: 0.9, ...QUIET, notable: 0.4 }
      : {
          polls: pick([0.3, 0.8, 1]),
          confirms: pick([0.3, 0.7, 1]),
          fails: 0.15,
          ...(happens(0.7) ? WILD : QUIET),
        },
  }
}
