// The flags of init, as the parser hands them over.

import type { Environment } from '../../core/partner.ts'
import type { Scheduler } from './machine-scheduler.ts'

export type InitOptions = {
  yes?: true
  dryRun?: true
  scheduler?: Scheduler
  priceFeed?: string
  ping?: URL
  partner?: string
  name?: string
  env: Environment
}
