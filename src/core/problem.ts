// Problems: every refusal of the service, as a closed list. Anything else that goes wrong is a bug, and is asserted.

/** Refusals of a partner's call only. */
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

/** Refusals of an operator's command only. */
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

/** Refusals of calls and commands: a taken order id, a missing record, an unusable database. */
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

/** A refusal. `message` is what its reader sees; each edge maps the codes it can meet to a status or an exit code. */
export class Problem extends Error {
  readonly code: ProblemCode

  constructor(code: ProblemCode, message: string) {
    super(message)
    this.name = 'Problem'
    this.code = code
  }
}

/** The refusal of a command line that is wrong in itself. */
export const usage = (message: string): Problem => new Problem('usage', message)

/** The kinds of records that are looked up by a name or id, each with its code and its noun. */
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

/** The refusal for an unknown name or id. A partner is not told the id, because the request has it. */
export function notFound(what: keyof typeof NAMED, name?: string): Problem {
  const [code, word] = NAMED[what]
  return new Problem(code, name === undefined ? `${word} not found.` : `${word} ${name} not found.`)
}

export const noFile = (file: string): Problem => new Problem('file_not_found', `There is no file ${file}.`)

export function unreadable(file: string, error: unknown): Problem {
  const { code } = error as { code?: unknown }
  if (code === 'ENOENT' || code === 'ENOTDIR') return noFile(file)
  if (code === 'EISDIR') return new Problem('bad_file', `${file} is a folder, not a file.`)
  if (code === 'ERR_ENCODING_INVALID_ENCODED_DATA')
    return new Problem('bad_file', `${file} is not UTF-8 text: save it as UTF-8.`)
  return new Problem('bad_file', `Cannot read ${file}: ${reasonInWords(error)}`)
}

// Errors of the operating system and of TLS in plain words.

const WORDS: Record<string, string> = {
  ENOENT: 'there is no such file or folder',
  ENOTDIR: 'a part of its path is a file and not a folder',
  EISDIR: 'it is a folder',
  EEXIST: 'it exists already',
  ENOTEMPTY: 'the folder is not empty',
  ELOOP: 'it is a link, or its links form a circle',
  ENAMETOOLONG: 'the name is too long: give a shorter one',
  EACCES: 'permission denied: give this user permission, or name another place',
  EPERM: 'permission denied: only its owner may do that, or the file system cannot',
  EROFS: 'the file system is mounted read-only: name a place on another one',
  ENOSPC: 'the disk is full: make room',
  EDQUOT: 'the disk space of this user is used up: make room',
  EFBIG: 'a file may not be that large: raise the limit (`ulimit -f`), or use another file system',
  EIO: 'the disk has failed: see the log of the system',
  EMFILE: 'this process may open no more files: raise the limit (`ulimit -n`, or LimitNOFILE of systemd)',
  ENFILE: 'this machine may open no more files',
  ENOMEM: 'this machine has no memory left',
  EBUSY: 'it is in use',
  ETXTBSY: 'it is a program that is running',
  EXDEV: 'it is on another file system',
  ESTALE: 'its file system was remounted: open it again',
  ENXIO: 'it is a socket or a device with nothing behind it',
  ENODEV: 'it is a device that is not there',
  EINVAL: 'the system does not accept it',
  EAGAIN: 'it is busy: try again',
  EPIPE: 'the reader has gone away',
  EADDRINUSE: 'it is taken; stop what listens there, or choose another port',
  EADDRNOTAVAIL: 'this machine does not have that address',
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection was closed',
  ETIMEDOUT: 'the connection could not be made in time',
  EHOSTUNREACH: 'the address cannot be reached',
  ENETUNREACH: 'the address cannot be reached',
  ENOTFOUND: 'there is no such host',
  EAI_AGAIN: 'there is no such host',
  EPROTO: 'it does not answer in TLS',
  ERR_SSL_EE_KEY_TOO_SMALL: 'its key is too short: RSA needs 2048 bits',
  ERR_SSL_CA_KEY_TOO_SMALL: 'the key of an authority is too short: RSA needs 2048 bits',
  ERR_OSSL_X509_KEY_VALUES_MISMATCH: 'the key is not that of the certificate',
}

type SystemError = { code?: unknown; syscall?: unknown; message?: unknown }

/** Why something failed. Errors of the system or of TLS are put in plain words, followed by their code. */
export function reasonInWords(error: unknown): string {
  const { code, syscall, message } = error as SystemError
  if (typeof code !== 'string') return String(message ?? error)
  if (syscall === 'uv_cwd')
    return 'the folder that this shell is in was removed: change to another one, with `cd`'
  if (syscall === 'mkdtemp')
    return `${WORDS[code] ?? 'no folder can be made there'} (${code}): set TMPDIR to another place`
  const words = WORDS[code]
  if (words !== undefined) return `${words} (${code})`
  if (/^ERR_(OSSL|SSL)_/.test(code)) return `TLS does not accept it (${code})`
  return syscall === undefined ? String(message) : `the system refused it (${code})`
}

/** A sentence for an error of the system that names the file; null for any other error. */
export function systemSentence(error: unknown): string | null {
  const { path, syscall, code } = error as SystemError & { path?: unknown }
  if (syscall === undefined && !(typeof code === 'string' && code in WORDS)) return null
  const words = reasonInWords(error)
  return typeof path === 'string'
    ? `${path} cannot be used: ${words}.`
    : `${words[0]?.toUpperCase()}${words.slice(1)}.`
}

/** Throws if a bug broke a condition, in production too: a wrong ledger is worse than a failed request. */
export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Error(`assertion failed: ${message}`)
}

/** The default of a switch over a union: it does not compile while a case is missing. */
export function unreachable(value: never): never {
  throw new Error(`unreachable: ${String(value)}`)
}
