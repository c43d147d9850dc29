// The program's behaviour as observed: plain JSON, so that it can come from another process.

/** An answer of the API. */
export type Answered = {
  status: number
  body: unknown
  dueRemaining: string | null
  /** The code of its refusal, and after how many seconds to ask again. */
  code: string | null
  retryAfter: string | null
}

export type FiredSeen = Record<'id' | 'tenant' | 'plan' | 'key' | 'amount' | 'trigger', string>

export type PassSeen = {
  meanwhile: Answered[]
  /** The pass's own report; null for a refused one. */
  report: Record<string, unknown> | null
  /** The code of its refusal. */
  refused: string | null
  fired: FiredSeen[]
  woken: { sent: number; failed: number } | null
  /** The wake-ups in the order they were sent, as they were on the wire. */
  payloads: { tenant: string; body: unknown }[]
  hanging: Answered | null
  /** The outcome of a second pass that began while this one was running. */
  overlap: 'skipped' | 'ran' | null
}

/** A refused report that was stored, by its number, and the id of its execution. */
export type LateSeen = { number: number; of: string }

/** Newly numbered objects, in the order of their numbers: plans, and stored reports. */
export type News = { planned: readonly { tenant: string; plan: string }[]; late: readonly LateSeen[] }
export const NO_NEWS: News = { planned: [], late: [] }

/** The warning to a clerk who credits an invoice: the volume that its corrections took from each later month. */
export type CreditSeen = { refused: string | null; lowered: [month: string, usd: string][] | null }

export type Seen =
  | { do: 'call'; pages: Answered[]; news: News }
  | { do: 'together'; answers: Answered[]; news: News }
  | { do: 'pass'; pass: PassSeen }
  /** `fired` has the executions that a lever booked. */
  | { do: 'lever'; refused: string | null; fired: FiredSeen[] }
  | { do: 'credit'; credited: CreditSeen }
  | { do: 'export'; text: string }
  | { do: 'clock' | 'backup' | 'restore' | 'freeze' | 'resume' }
  | { do: 'rehearse'; fired: string[] }

/** The whole record, in words of the contract: the model's state must look the same. */
const RECORDS = [
  ...['partners', 'keys', 'tiers', 'audit', 'users', 'plans', 'windows', 'schedules'],
  ...['executions', 'late', 'webhooks', 'deliveries', 'passes', 'prices', 'clock'],
] as const
export type Lines = Record<(typeof RECORDS)[number], string[]>

export const emptyRecord = (): Lines =>
  Object.fromEntries(RECORDS.map((name) => [name, [] as string[]])) as Lines

/** A line of a record. */
export const line = (...cells: (string | number | bigint | boolean | null)[]): string => cells.join(' | ')

/** The failure of a simulation: the program and the model disagree, or the model with itself. */
export class Difference extends Error {}
