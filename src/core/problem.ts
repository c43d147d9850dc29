// Problems: every refusal of the service, as a closed list. Anything else that goes wrong is a bug, and is asserted.

/** What only a partner's call can meet. */
export type CallProblem =
  | 'consent_required'
  | 'user_never_linked'
  | 'user_not_linked'
  | 'key_invalid'
  | 'partner_disabled'
  | 'plan_bound_elsewhere'
  | 'plan_cancelled'
  | 'execution_pending'
  | 'amount_over_reservation'

/** What only an operator's command can meet. */
export type CommandProblem =
  | 'partner_not_found'
  | 'partner_exists'
  | 'key_not_found'
  | 'key_ended'
  | 'tier_not_found'
  | 'month_closed'
  | 'invoice_not_found'
  | 'invoice_conflict'
  | 'late_fill_not_found'
  | 'late_fill_conflict'
  | 'purchase_twin'
  | 'adjustment_conflict'
  | 'import_running'
  | 'file_not_found'
  | 'bad_file'
  | 'file_exists'
  | 'no_price'
  | 'price_not_found'
  | 'clock_disputed'
  | 'database_not_found'
  | 'database_exists'
  | 'usage'

/** What either can meet: an order that is taken, a record that does not exist, a database that cannot be used. */
export type SharedProblem =
  | 'user_not_found'
  | 'plan_not_found'
  | 'execution_not_found'
  | 'execution_recorded'
  | 'execution_cancelled'
  | 'order_id_taken'
  | 'webhook_not_found'
  | 'webhook_refused'
  | 'sandbox_refused'
  | 'sandbox_full'
  | 'database_in_use'
  | 'database_gone'
  | 'database_locked'
  | 'database_damaged'
  | 'database_moved'
  | 'database_frozen'
  | 'storage_failed'
  | 'schema_newer'

export type ProblemCode = CallProblem | CommandProblem | SharedProblem

/** A refusal. `message` is the text its reader sees; each edge maps the codes that it can meet to a
 * status or an exit code. */
export class Problem extends Error {
  readonly code: ProblemCode

  constructor(code: ProblemCode, message: string) {
    super(message)
    this.name = 'Problem'
    this.code = code
  }
}

/** What can be looked up by its name or id, with the code and the word for one that does not exist. */
const NAMED = {
  partner: ['partner_not_found', 'Partner'],
  key: ['key_not_found', 'Key'],
  user: ['user_not_found', 'User'],
  partnerUser: ['user_not_found', 'Partner user'],
  plan: ['plan_not_found', 'Plan'],
  execution: ['execution_not_found', 'Execution'],
  tier: ['tier_not_found', 'Tier'],
  invoice: ['invoice_not_found', 'Invoice'],
  price: ['price_not_found', 'Price'],
} as const satisfies Record<string, readonly [ProblemCode, string]>

/** Nothing has this name or id. A partner is not told the id again, because the request has it. */
export function notFound(what: keyof typeof NAMED, name?: string): Problem {
  const [code, word] = NAMED[what]
  return new Problem(code, name === undefined ? `${word} not found.` : `${word} ${name} not found.`)
}

// Why a file cannot be read: a missing one is file_not_found, and any other is bad_file.

const MISSING = ['ENOENT', 'ENOTDIR']

/** No file has this name. */
export const noFile = (file: string): Problem => new Problem('file_not_found', `There is no file ${file}.`)

/** The problem to throw for an error that occurred while reading `file`. */
export function unreadable(file: string, error: unknown): Problem {
  const { code, message } = error as { code?: unknown; message: string }
  if (MISSING.includes(String(code))) return noFile(file)
  if (code === 'EISDIR') return new Problem('bad_file', `${file} is a folder, not a file.`)
  if (code === 'ERR_ENCODING_INVALID_ENCODED_DATA')
    return new Problem('bad_file', `${file} is not UTF-8 text: save it as UTF-8.`)
  return new Problem('bad_file', `Cannot read ${file}: ${message}`)
}

// Assertions: what holds unless there is a bug, checked where money depends on it.

/** Stops on what only a bug could cause. It stays in production: a wrong ledger is worse than a failed request. */
export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Error(`assertion failed: ${message}`)
}

/** The default of a switch over a union: it does not compile while a case is missing. */
export function unreachable(value: never): never {
  throw new Error(`unreachable: ${String(value)}`)
}
