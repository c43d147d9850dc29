// What the program was seen to do: plain JSON, so that it can come from another process.

/** An answer of the API. */
export type Answered = {
  status: number
  body: unknown
  dueRemaining: string | null
  /** Why it was refused, and after how many seconds to ask again. */
  code: string | null
  retryAfter: string | null
}

export type FiredSeen = {
  id: string
  tenant: string
  plan: string
  key: string
  amount: string
  trigger: string
}

export type PassSeen = {
  meanwhile: Answered[]
  /** What the pass said of itself; null for one that was refused. */
  report: Record<string, unknown> | null
  /** The code that it was refused with. */
  refused: string | null
  fired: FiredSeen[]
  woken: { sent: number; failed: number } | null
  /** The wake-ups in the order they were sent, as they were on the wire. */
  payloads: { tenant: string; body: unknown }[]
  hanging: Answered | null
  /** What a second pass said that began while this one was under way. */
  overlap: 'skipped' | 'ran' | null
}

/** A report that was refused and kept, by its number, and the id of its execution. */
export type LateSeen = { number: number; of: string }

/** What was numbered, in the order of its numbers: new plans, and reports that were kept. */
export type News = { planned: readonly { tenant: string; plan: string }[]; late: readonly LateSeen[] }
export const NO_NEWS: News = { planned: [], late: [] }

/** What is said to who credits an invoice: how much volume its corrections have taken from which later month. */
export type CreditSeen = { refused: string | null; lowered: [month: string, usd: string][] | null }

export type Seen =
  | { do: 'call'; pages: Answered[]; news: News }
  | { do: 'together'; answers: Answered[]; news: News }
  | { do: 'pass'; pass: PassSeen }
  /** `fired` is what a lever has booked. */
  | { do: 'lever'; refused: string | null; fired: FiredSeen[] }
  | { do: 'credit'; credited: CreditSeen }
  | { do: 'export'; text: string }
  | { do: 'clock' | 'backup' | 'restore' | 'freeze' | 'resume' }
  | { do: 'rehearse'; fired: string[] }

/** All that is on record, in words of the contract: what the model's state must look like too. */
const RECORDS = [
  'partners',
  'keys',
  'tiers',
  'audit',
  'users',
  'plans',
  'windows',
  'schedules',
  'executions',
  'late',
  'webhooks',
  'deliveries',
  'passes',
  'prices',
  'clock',
] as const
export type Lines = Record<(typeof RECORDS)[number], string[]>

export const emptyRecord = (): Lines =>
  Object.fromEntries(RECORDS.map((name) => [name, [] as string[]])) as Lines

/** A line of a record. */
export const line = (...cells: (string | number | bigint | boolean | null)[]): string => cells.join(' | ')

/** What a simulation fails with: the program and the model disagree, or the model with itself. */
export class Difference extends Error {}
