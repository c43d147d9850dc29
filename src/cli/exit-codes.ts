// Exit codes, and how a failed command reports its error.

import {
  type CommandProblem,
  Problem,
  type ProblemCode,
  type SharedProblem,
  systemSentence,
} from '../core/problem.ts'
import { Interrupted } from './terminal.ts'

export const EXIT = {
  done: 0,
  failed: 1,
  usage: 2,
  found: 3,
  notFound: 4,
  conflict: 5,
  locked: 11,
  schemaNewer: 12,
  interrupted: 130,
} as const

const EXIT_OF: Record<CommandProblem | SharedProblem, number> = {
  usage: EXIT.usage,
  partner_not_found: EXIT.notFound,
  key_not_found: EXIT.notFound,
  tier_not_found: EXIT.notFound,
  plan_not_found: EXIT.notFound,
  execution_not_found: EXIT.notFound,
  late_fill_not_found: EXIT.notFound,
  database_not_found: EXIT.notFound,
  partner_exists: EXIT.conflict,
  key_ended: EXIT.conflict,
  month_closed: EXIT.conflict,
  invoice_not_found: EXIT.notFound,
  invoice_conflict: EXIT.conflict,
  late_fill_conflict: EXIT.conflict,
  purchase_twin: EXIT.conflict,
  order_id_taken: EXIT.conflict,
  adjustment_conflict: EXIT.conflict,
  execution_recorded: EXIT.conflict,
  execution_cancelled: EXIT.conflict,
  import_running: EXIT.conflict,
  file_not_found: EXIT.notFound,
  bad_file: EXIT.failed,
  file_exists: EXIT.conflict,
  no_price: EXIT.failed,
  price_not_found: EXIT.notFound,
  sandbox_refused: EXIT.conflict,
  sandbox_full: EXIT.conflict,
  clock_disputed: EXIT.failed,
  webhook_not_found: EXIT.notFound,
  webhook_refused: EXIT.failed,
  database_exists: EXIT.conflict,
  database_gone: EXIT.failed,
  database_locked: EXIT.locked,
  database_in_use: EXIT.locked,
  database_damaged: EXIT.failed,
  database_moved: EXIT.conflict,
  database_frozen: EXIT.conflict,
  storage_failed: EXIT.failed,
  schema_newer: EXIT.schemaNewer,
  user_not_found: EXIT.notFound,
}

type Failure = { exitCode: number; code: string; message: string }

export function failureOf(error: unknown): Failure {
  if (error instanceof Problem) {
    // A problem of calls only is a bug here.
    const exitCode = (EXIT_OF as Partial<Record<ProblemCode, number>>)[error.code] ?? EXIT.failed
    return { exitCode, code: error.code, message: error.message }
  }
  if (error instanceof Interrupted)
    return { exitCode: EXIT.interrupted, code: 'interrupted', message: error.message }
  const sentence = systemSentence(error)
  if (sentence !== null) return { exitCode: EXIT.failed, code: 'storage_failed', message: sentence }
  const { code, message } = error as { code?: unknown; message?: unknown }
  return {
    exitCode: EXIT.failed,
    code: typeof code === 'string' ? code.toLowerCase() : 'failed',
    message: typeof message === 'string' ? message : String(error),
  }
}
