// After a pass: the wake-ups it wrote, each tried once, its outcome entered.

import { FAILURES_TO_PAUSE, FAILURES_TO_WARN, noteAttempt } from '../core/webhook.ts'
import type { WebhookStore } from '../store/webhooks.ts'
import { type Deliver, type Delivery, inParallel } from './deliver.ts'

export type WakeOptions = {
  store: WebhookStore
  deliver: Deliver
  /** Told when a webhook has failed five times in a row, and when it is paused. */
  warn: (message: string, fields: object) => void
}

/** Sends what the pass announced. Never throws for a receiver's sake; says how many were delivered and how many not. */
export async function wakePartners(
  passId: number,
  options: WakeOptions,
): Promise<{ sent: number; failed: number }> {
  const { store, deliver, warn } = options
  const count = { sent: 0, failed: 0 }
  await inParallel(await store.claimWakeUps(passId), async (delivery) => {
    const attempt = await deliver(delivery)
    if (attempt.reason === null) count.sent += 1
    else count.failed += 1
    const { tenant, webhook } = delivery
    const now = await store.noteAttempt(tenant, webhook, (seen, at) => noteAttempt(seen, attempt, at))
    if (attempt.reason !== null && now?.secret === webhook.secret) report(delivery, now, attempt.reason)
  })
  return count

  function report({ tenant }: Delivery, now: Delivery['webhook'], reason: string): void {
    const who = `webhook of ${tenant.partnerSlug} ${tenant.environment}`
    const fields = { partner_slug: tenant.partnerSlug, environment: tenant.environment, reason }
    const failures = now.consecutiveFailures
    // Attempts that were under way at the pause fail after it and are no news.
    if (failures === FAILURES_TO_PAUSE)
      warn(`${who} is paused after ${failures} failures (${reason})`, fields)
    else if (failures === FAILURES_TO_WARN)
      warn(`${who} has failed ${failures} times in a row (${reason})`, fields)
  }
}
