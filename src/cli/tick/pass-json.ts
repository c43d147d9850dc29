// What a pass did, as tick prints it and serve logs it.

import { formatInstant } from '../../core/instant.ts'
import { formatPrice } from '../../core/money.ts'
import type { PassReport } from '../../engine/pass.ts'

/** What a pass did; a pass that found another one running did nothing, and says so. */
export const passJson = ({ report, woken, now, durationMs }: PassOutcome) => ({
  at: formatInstant(report?.at ?? now),
  price_usd: report?.price ? formatPrice(report.price) : null,
  plans_evaluated: report?.plansEvaluated ?? 0,
  executions_created: report?.executionsCreated ?? 0,
  windows_rolled: report?.windowsRolled ?? 0,
  webhooks_sent: woken?.sent ?? 0,
  webhooks_failed: woken?.failed ?? 0,
  duration_ms: Math.round(durationMs),
  ...(report === null && { skipped: true }),
  ...(report && report.failed.length > 0 && { plans_failed: report.failed.length }),
})

type PassOutcome = {
  /** Null when another pass was running. */
  report: PassReport | null
  /** Nothing for one whose partners another process wakes. */
  woken: { sent: number; failed: number } | null | undefined
  now: PassReport['at']
  durationMs: number
}
