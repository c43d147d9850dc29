// After a pass: the wake-ups it wrote, each tried once, its outcome entered. What sends them loads Node's TLS and is in
// a file of its own (deliver.ts): every cron tick loads this one, and few have anything to send.

import { FAILURES_TO_WARN } from '../core/findings.ts'
import {
  type Announcement,
  type Attempt,
  FAILURES_TO_PAUSE,
  noteAttempt,
  type WakeUp,
  type Webhook,
} from '../core/webhook.ts'
import type { WakeUpStore, WebhookStore } from '../store/store.ts'

export type Delivery = WakeUp & { webhook: Webhook }
export type Deliver = (delivery: Delivery) => Promise<Attempt>
/** The same for a partner without a webhook on record. */
export type Send = (delivery: Announcement & { webhook: Pick<Webhook, 'url' | 'secret'> }) => Promise<Attempt>

type WakeOptions = {
  store: WakeUpStore & Pick<WebhookStore, 'noteAttempt'>
  /** Asked for only when there is something to announce: what it loads is what a pass without news goes without. */
  deliver: () => Promise<Deliver>
  /** Told when a webhook fails often enough to be worth a line, when it is paused, and when the store fails. */
  warn: (message: string, fields: object) => void
}

export type Woken = { sent: number; failed: number }

export const IN_PARALLEL_MAX = 50

/**
 * Sends what a pass announced, and what earlier ones could not, and says how many wake-ups were delivered and how many
 * not. Never throws: its executions are stored and a poll finds them, so a wake-up that is lost does not undo the pass.
 */
export async function wakePartners(
  pass: { passId: number; executionsCreated: number },
  { store, deliver: load, warn }: WakeOptions,
): Promise<Woken> {
  const woken: Woken = { sent: 0, failed: 0 }
  try {
    if (pass.executionsCreated === 0 && !(await store.hasLeftWakeUps(pass.passId))) return woken
    const deliver = await load()
    await inParallel(await store.claimWakeUps(pass.passId), async (delivery) => {
      const attempt = await deliver(delivery)
      if (attempt.reason === null) woken.sent += 1
      else woken.failed += 1
      const { tenant, webhook } = delivery
      const now = await store.noteAttempt(tenant, webhook, (current, at) => noteAttempt(current, attempt, at))
      if (attempt.reason !== null && now?.secret === webhook.secret) report(delivery, now, attempt.reason)
    })
  } catch (err) {
    warn(`webhooks failed: ${(err as Error).message}`, { err })
  }
  return woken

  function report({ tenant }: Delivery, now: Delivery['webhook'], reason: string): void {
    const who = `webhook of ${tenant.partnerSlug} ${tenant.environment}`
    const fields = { partner_slug: tenant.partnerSlug, environment: tenant.environment, reason }
    const failures = now.consecutiveFailures
    // Attempts that were under way at the pause fail after it and are not news.
    if (failures === FAILURES_TO_PAUSE)
      warn(`${who} is paused after ${failures} failures (${reason})`, fields)
    else if (failures === FAILURES_TO_WARN)
      warn(`${who} has failed ${failures} times in a row (${reason})`, fields)
  }
}

/**
 * Runs `send` over all items, at most so many at a time. When one throws, the others are finished before it is told.
 */
export async function inParallel<T>(items: readonly T[], send: (item: T) => Promise<void>): Promise<void> {
  const queue = items.values()
  const errors: unknown[] = []
  const lane = async (): Promise<void> => {
    for (const item of queue) await send(item).catch((error) => errors.push(error))
  }
  await Promise.all(Array.from({ length: Math.min(IN_PARALLEL_MAX, items.length) }, lane))
  if (errors.length > 0) throw errors[0]
}
