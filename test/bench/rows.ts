// The rows of the bench, in the order in which they are measured and shown.

import type { Row } from './row.ts'
import { backtest } from './rows/backtest.ts'
import { confirm, confirmAlone } from './rows/confirm.ts'
import { confirmBesidePass } from './rows/confirm-beside-pass.ts'
import { day } from './rows/day.ts'
import { billingExport } from './rows/export.ts'
import { growthOfPlans } from './rows/growth.ts'
import { idlePass } from './rows/idle-pass.ts'
import { me } from './rows/me.ts'
import { memory } from './rows/memory.ts'
import { monthPages } from './rows/month-pages.ts'
import { pass, plunge } from './rows/pass.ts'
import { plan } from './rows/plan.ts'
import { poll } from './rows/poll.ts'
import { queue } from './rows/queue.ts'
import { startUp } from './rows/start-up.ts'

export const ROWS: readonly Row[] = [
  me,
  confirm,
  confirmAlone,
  plan,
  poll,
  pass,
  plunge,
  idlePass,
  growthOfPlans,
  confirmBesidePass,
  queue,
  backtest,
  billingExport,
  monthPages,
  startUp,
  memory,
  day,
]
