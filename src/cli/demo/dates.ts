// Days as the account writes them, all in UTC.

const WEEKDAYS = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun']
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

const utcDay = (instant: string, daysOn: number): Temporal.ZonedDateTime =>
  Temporal.Instant.from(instant).toZonedDateTimeISO('UTC').add({ days: daysOn })

export const weekday = (instant: string, daysOn = 0): string =>
  WEEKDAYS[utcDay(instant, daysOn).dayOfWeek - 1] ?? ''

export function shortDate(instant: string, daysOn = 0): string {
  const { day, month } = utcDay(instant, daysOn)
  return `${day} ${MONTHS[month - 1]}`
}

export const dayOfMonth = (instant: string, daysOn = 0): number => utcDay(instant, daysOn).day
