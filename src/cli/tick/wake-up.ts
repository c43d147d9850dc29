// Wakes partners from a command: sends what a pass announced, and warns of what cannot be sent.

import type { Store } from '../../store/store.ts'
import { type Woken, wakePartners } from '../../webhook/wake-partners.ts'
import type { Cli } from '../context.ts'
import type { Webhooks } from '../options/webhooks.ts'
import { warn } from '../terminal/print.ts'

type Waking = { store: Store; webhooks: () => Promise<Webhooks> }

/** Never throws: the executions are stored, and a poll finds them. */
export const wake = (
  cli: Cli,
  { store, webhooks }: Waking,
  pass: { passId: number; executionsCreated: number },
): Promise<Woken> =>
  wakePartners(pass, {
    store,
    deliver: async () => (await webhooks()).deliver,
    warn: (message) => warn(cli, message),
  })
