// Sends the wake-ups of a pass, each once, and records the outcome. The sending itself loads Node's TLS, so it is in
// send.ts: every cron tick loads this file, and few ticks have anything to send.

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
export type SendWakeUp = (delivery: Delivery) => Promise<Attempt>
/** Sends a wake-up, also to an address that is not registered as a webhook. */
export type Send = (delivery: Announcement & { webhook: Pick<Webhook, 'url' | 'secret'> }) => Promise<Attempt>

type WakeOptions = {
  store: WakeUpStore & Pick<WebhookStore, 'noteAttempt'>
  /** Called only when there is something to send, so that other passes do not load it. */
  send: () => Promise<SendWakeUp>
  /** Called when a webhook has failed often enough to report, when it is paused, and when the store fails. */
  warn: (message: string, fields: object) => void
}

export type Woken = { sent: number; failed: number }

export const IN_PARALLEL_MAX = 50

/** Never throws: a poll finds the executions all the same, so a lost wake-up does not undo the pass. */
export async function wakePartners(
  pass: { passId: number; executionsCreated: number },
  { store, send: load, warn }: WakeOptions,
): Promise<Woken> {
  const woken: Woken = { sent: 0, failed: 0 }
  try {
    if (pass.executionsCreated === 0) return woken
    const send = await load()
    await inParallel(await store.claimWakeUps(pass.passId), async (delivery) => {
      const attempt = await send(delivery)
      if (attempt.reason === null) woken.sent += 1
      else woken.failed += 1
      const now = await store.noteAttempt(delivery, attempt, (current, at) =>
        noteAttempt(current, attempt, at),
      )
      if (attempt.reason !== null && now?.secret === delivery.webhook.secret)
        report(delivery, now, attempt.reason)
    })
  } catch (err) {
    warn(`webhooks failed: ${(err as Error).message}`, { err })
  }
  return woken

  function report({ tenant }: Delivery, now: Delivery['webhook'], reason: string): void {
    const who = `webhook of ${tenant.partnerSlug} ${tenant.environment}`
    const fields = { partner_slug: tenant.partnerSlug, environment: tenant.environment, reason }
    const failures = now.consecutiveFailures
    // Attempts that were under way at the pause fail after it, and are not logged.
    if (failures === FAILURES_TO_PAUSE)
      warn(`${who} is paused after ${failures} failures (${reason})`, fields)
    else if (failures === FAILURES_TO_WARN)
      warn(`${who} has failed ${failures} times in a row (${reason})`, fields)
  }
}

/** Runs `send` over all items, a limited number at a time; throws the first error when all have finished. */
export async function inParallel<T>(items: readonly T[], send: (item: T) => Promise<void>): Promise<void> {
  const queue = items.values()
  const errors: unknown[] = []
  const lane = async (): Promise<void> => {
    for (const item of queue) await send(item).catch((error) => errors.push(error))
  }
  await Promise.all(Array.from({ length: Math.min(IN_PARALLEL_MAX, items.length) }, lane))
  if (errors.length > 0) throw errors[0]
}
