// The Gregorian calendar by arithmetic: dates to days and back (Howard Hinnant, "chrono-Compatible Low-Level Date
// Algorithms", 2013). Years begin in March here: the leap day is then the last of its year and moves no other.

export type CalendarDate = { year: number; month: number; day: number }

/** After this many years the calendar repeats. */
const CYCLE_YEARS = 400
const CYCLE_DAYS = 146_097
/** From 1 March of the year 0 to 1 January 1970. */
const EPOCH_DAY = 719_468

/** Days from 1970-01-01 to a date. */
export function dayOf({ year, month, day }: CalendarDate): number {
  const marchYear = month > 2 ? year : year - 1
  const cycle = Math.floor(marchYear / CYCLE_YEARS)
  const yearOfCycle = marchYear - cycle * CYCLE_YEARS
  const leapDays = Math.floor(yearOfCycle / 4) - Math.floor(yearOfCycle / 100)
  const months = (month + 9) % 12
  return cycle * CYCLE_DAYS + yearOfCycle * 365 + leapDays + daysBefore(months) + day - 1 - EPOCH_DAY
}

/** The date that is so many days after 1970-01-01. */
export function dateOf(days: number): CalendarDate {
  const fromMarch = days + EPOCH_DAY
  const cycle = Math.floor(fromMarch / CYCLE_DAYS)
  const dayOfCycle = fromMarch - cycle * CYCLE_DAYS
  // Every 4 years but every 100th, and yet the last day of the 400 years, has a leap day before it.
  const leapDays =
    Math.floor(dayOfCycle / 1_460) - Math.floor(dayOfCycle / 36_524) + Math.floor(dayOfCycle / 146_096)
  const yearOfCycle = Math.floor((dayOfCycle - leapDays) / 365)
  const dayOfYear =
    dayOfCycle - 365 * yearOfCycle - Math.floor(yearOfCycle / 4) + Math.floor(yearOfCycle / 100)
  const months = Math.floor((5 * dayOfYear + 2) / 153)
  const month = months < 10 ? months + 3 : months - 9
  const year = cycle * CYCLE_YEARS + yearOfCycle + (month > 2 ? 0 : 1)
  return { year, month, day: dayOfYear - daysBefore(months) + 1 }
}

/** Days of so many months from March on: 31, 30, 31, 30, 31 and again. */
const daysBefore = (months: number): number => Math.floor((153 * months + 2) / 5)

/** How many days a month has. */
export function daysIn(year: number, month: number): number {
  if (month === 2) return (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0 ? 29 : 28
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31
}
