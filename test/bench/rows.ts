// The rows of the bench, in the order in which they are measured and shown.

import type { Row } from './row.ts'
import { backtest } from './rows/backtest.ts'
import { confirm, confirmAlone, confirmBesidePass, me, plan, poll } from './rows/calls.ts'
import { billingExport, memory, monthPages } from './rows/exports.ts'
import { day, growthOfPlans, idlePass, pass, plunge } from './rows/passes.ts'
import { queue } from './rows/queue.ts'
import { startUp } from './rows/start-up.ts'
import { year } from './rows/year.ts'

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
  year,
  startUp,
  memory,
  day,
]
