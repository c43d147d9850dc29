// The wake-ups after a pass: what was announced is sent, and a failure is a warning.

import type { PassReport } from '../../engine/pass.ts'
import type { Store } from '../../store/store.ts'
import type { Cli } from '../context.ts'
import type { Webhooks } from '../options/webhooks.ts'
import { warn } from '../terminal/print.ts'

type Waking = Pick<PassReport, 'passId' | 'executionsCreated'> & {
  store: Store
  webhooks: () => Promise<Webhooks>
}

/** Sends what the pass announced. A pass that fired nothing loads none of it. */
export async function sendWakeUps(
  cli: Cli,
  { store, webhooks, passId, executionsCreated }: Waking,
): Promise<{ sent: number; failed: number } | null> {
  if (executionsCreated === 0) return null
  const { wakePartners } = await import('../../webhook/wake-partners.ts')
  const { deliver } = await webhooks()
  try {
    return await wakePartners(passId, { store, deliver, warn: (message) => warn(cli, message) })
  } catch (error) {
    // The executions are stored and a poll finds them: that nobody was woken does not undo the pass.
    warn(cli, `webhooks failed: ${(error as Error).message}`)
    return null
  }
}
