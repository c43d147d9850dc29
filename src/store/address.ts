// The address in --db: a file, or a database on a server. A URL may hold a password, which belongs in no output.

import { usage } from '../core/problem.ts'

/** Where init puts the settings of a service that root installs, and its database. */
export const INSTALLED = {
  settings: '/etc/tranche/tranche.env',
  folder: '/var/lib/tranche',
  /** The user that root has switched to, to work on its database; null until then. */
  became: null as string | null,
}

const SERVER = /^postgres(ql)?:\/\//i
/** Forms of an address, even inside quotes that a shell would have removed: it may contain a password. */
const OF_ANY_KIND = [
  // A URL of any kind, also inside another one: jdbc:postgresql://h/db, socket:/run/db.
  /:\/\//,
  /^["'\s]*([a-z][a-z0-9+.-]+:\/|(jdbc:)?postgres(ql)?:)/i,
  // A login without the beginning of its URL: user:password@h/db, //user@h/db. A file of such a name is
  // ./user:password@h.
  /(^|\/\/)[^/]+:.*@/s,
  /^["'\s]*\/\/[^/]*@/,
  // Parameters, after a question mark or as PostgreSQL's own programs accept them.
  /\?[^/]*=/,
  /(^|["'\s?&;])(host|hostaddr|port|user|dbname|service|options|ssl[a-z]+|pass[a-z]*|pwd)\s*=/i,
]
const isAddressOfAnyKind = (db: string): boolean => OF_ANY_KIND.some((kind) => kind.test(db))
const HIDDEN = 'postgres://***'

/** Whether an address is of a database on a PostgreSQL server. Anything else is a file. */
export const isServer = (db: string): boolean => SERVER.test(db)

/** The address without its password and otherwise unchanged, for messages and logs. */
export function shownAddress(db: string): string {
  if (!isAddressOfAnyKind(db)) return db
  const parts = splitAddress(db)
  // The end of a password with a slash cannot be found.
  if (!parts) return HIDDEN
  if (!parts.password && !parts.parameters.some(isSecret)) return db
  const parameters = withoutSecretsOf(parts.parameters)
  return joined({ ...parts, password: parts.password && '***', parameters })
}

/** Beside a secret, only accepted parameters are shown: the rest of a password with a & looks like a parameter. */
function withoutSecretsOf(parameters: readonly string[]): string[] {
  if (!parameters.some(isSecret)) return [...parameters]
  return parameters.map((parameter) => {
    const [name = ''] = parameter.split('=', 1)
    if (!isTaken(name)) return '***'
    return isSecret(parameter) ? `${name}=***` : parameter
  })
}

const joined = ({ scheme, user, password, host, path, parameters }: AddressParts): string =>
  scheme +
  (user === null ? '' : `${user}${password === null ? '' : `:${password}`}@`) +
  host +
  path +
  (parameters.length > 0 ? `?${parameters.join('&')}` : '')

/** Whether an address contains anything secret: a hint then names the variable TRANCHE_DB. */
export const holdsSecret = (db: string): boolean => shownAddress(db) !== db

/** Used in a command in place of the address in the variable, which a shell inserts. */
export const IN_VARIABLE = '$TRANCHE_DB'

/** The database in a command: its address, or the variable if that hides a password. */
export const namedInCommand = (shown: string): string => (shown.includes('***') ? IN_VARIABLE : shown)

/** A text that may quote addresses, of databases or other servers, without their passwords. */
export const withoutSecrets = (text: string): string =>
  text.replace(/[a-z][a-z0-9+.-]*:\/\/[^\s'"`]+/gi, (address) =>
    isServer(address) ? shownAddress(address) : address.replace(/\/\/[^/@]*:.*@/, '//***@'),
  )

/** Throws usage for text like an address that is not PostgreSQL's, or that asks for something unsupported. */
export function refuseNoAddress(db: string): void {
  if (!isAddressOfAnyKind(db)) {
    refuseFileName(db)
    return
  }
  if (!isServer(db))
    throw usage(
      '--db and TRANCHE_DB take a file or an address that begins with postgres://, and this is neither. ' +
        'For a file that is called like an address, give the path: ./NAME.',
    )
  const flaw = flawOf(db)
  if (flaw) throw usage(`The address of the database ${flaw}`)
}

/**
 * Throws usage for a file that SQLite would open under another name: its driver trims white space, which a settings
 * file with CR LF leaves at the end, and `:memory:` is not stored at all.
 */
export function refuseFileName(file: string): void {
  const ends = [file, file.slice(file.lastIndexOf('/') + 1)]
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
  const isOdd = /[\u0000-\u001f\u007f]/.test(file) || ends.some((name) => name !== name.trim())
  if (isOdd)
    throw usage(
      `${JSON.stringify(file)} is no name for a database: it begins or ends with white space, or has a control character.`,
    )
  if (file === ':memory:') throw usage('A database in memory would be gone with this command: name a file.')
}

// The parts of the address of a database on a server, and its possible flaws. It is read as PostgreSQL's own programs
// read one, except that parameters that would be ignored are refused.

/** The parts as written. `path` begins with its slash, and is empty when there is none. */
type AddressParts = {
  scheme: string
  user: string | null
  password: string | null
  host: string
  path: string
  parameters: string[]
}

/** The host ends before the first slash, question mark or hash, so a password contains none of them. */
const FORM = /^(postgres(?:ql)?:\/\/)(?:([^/?#]*)@)?([^/?#@]*)((?:\/[^?#@]*)?)(?:\?([^#@]*))?$/is

/** Null for an address that cannot be taken apart with certainty. */
function splitAddress(db: string): AddressParts | null {
  const [, scheme, login, host = '', path = '', query = ''] = FORM.exec(db) ?? []
  if (scheme === undefined) return null
  const [user, password] = login === undefined ? [null, null] : cutAt(login, ':')
  return { scheme, user, password, host, path, parameters: query === '' ? [] : query.split('&') }
}

/** The parts before and after the first `sign`; null for the second when there is none. */
function cutAt(text: string, sign: string): [string, string | null] {
  const at = text.indexOf(sign)
  return at < 0 ? [text, null] : [text.slice(0, at), text.slice(at + 1)]
}

/** The parameters that are accepted. */
const PARAMETERS = [
  'host',
  'port',
  'user',
  'password',
  'dbname',
  'options',
  'sslmode',
  'sslrootcert',
  'sslcert',
  'sslkey',
] as const
const isTaken = (name: string): boolean => (PARAMETERS as readonly string[]).includes(name)

/** Whether the value of a parameter is a secret. For a parameter that is not accepted, its name decides. */
const isSecret = (parameter: string): boolean => {
  const [name] = cutAt(parameter, '=')
  return name === 'password' || (!isTaken(name) && /pass|pwd|secret|token|%/i.test(name))
}

/** The parts of an address, decoded; null for those left out. */
export type AddressValues = Record<(typeof PARAMETERS)[number], string | null>

/** The values of an address that has no flaw. A parameter overrides the same part elsewhere in the address. */
export function addressValues(db: string): AddressValues {
  const parts = splitAddress(db)
  if (!parts) throw new Error('not an address')
  const { user, password, path, parameters } = parts
  const { host, port } = hostAndPort(parts.host)
  const given: Record<string, string | null> = { host, port, user, password, dbname: path.slice(1) }
  for (const parameter of parameters) {
    const [name, value] = cutAt(parameter, '=')
    given[name] = value
  }
  const entries = PARAMETERS.map((name) => [name, decodeURIComponent(given[name] ?? '') || null])
  return Object.fromEntries(entries)
}

/** An IPv6 address is in brackets, which are not part of it. */
function hostAndPort(text: string): { host: string; port: string | null } {
  const [, inBrackets, name = '', port] = /^(?:\[([^\]]*)\]|([^:]*))(?::(.*))?$/s.exec(text) ?? []
  return { host: inBrackets ?? name, port: port ?? null }
}

export const PORT_MAX = 65_535
export const isPort = (text: string): boolean =>
  /^\d+$/.test(text) && Number(text) >= 1 && Number(text) <= PORT_MAX

/** All but the first encrypt; all but the first and the last check the server's certificate and name. */
const SSL_MODES = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full', 'no-verify']

const FLAW = {
  several: 'names several hosts. Name one: the primary, or a proxy that knows which that is.',
  unbracketed: 'has an IPv6 address without brackets: write [::1].',
  port: `has a port that is not a number from 1 to ${PORT_MAX}.`,
  sslmode: `has an sslmode that is not accepted. These are: ${SSL_MODES.join(', ')}.`,
  unreadable:
    'cannot be read: in its password, a character that is not a letter or digit is written as %XX, such as %2F for /, ' +
    '%40 for @ and %25 for %.',
}

/** The flaw of a server's address, as the rest of a sentence about it; null when it can be tried. */
function flawOf(db: string): string | null {
  const parts = splitAddress(db)
  if (!parts) {
    const [, authority = '', rest = ''] = /^[a-z]+:\/\/([^/?#]*)(.*)$/is.exec(db) ?? []
    // Otherwise, the text before it is a password that contains a slash.
    const isHost = !rest.includes('@')
    return (isHost && flawOfHost(authority.slice(authority.lastIndexOf('@') + 1))) || FLAW.unreadable
  }
  return flawOfHost(parts.host) ?? (isEncoded(db) ? flawOfParameters(parts.parameters) : FLAW.unreadable)
}

/** Whether each % begins an encoded character, and every character that must be encoded is. */
function isEncoded(db: string): boolean {
  try {
    return !decodeURIComponent(db).includes('\0') && !/\s/.test(db)
  } catch {
    return false
  }
}

function flawOfHost(text: string): string | null {
  if (text.includes(',')) return FLAW.several
  if (/^[\da-f]*:[\da-f]*:/i.test(text)) return FLAW.unbracketed
  const { port } = hostAndPort(text)
  // PostgreSQL's own programs treat an empty one as absent.
  return !port || isPort(port) ? null : FLAW.port
}

function flawOfParameters(parameters: readonly string[]): string | null {
  for (const parameter of parameters) {
    const [name, encoded] = cutAt(parameter, '=')
    const value = decodeURIComponent(encoded ?? '')
    if (!isTaken(name)) return flawOfName(name, parameters.some(isSecret))
    if (name === 'host' && value.includes(',')) return FLAW.several
    if (name === 'port' && !isPort(value)) return FLAW.port
    if (name === 'sslmode' && !SSL_MODES.includes(value)) return FLAW.sslmode
  }
  return null
}

/** A password that contains a & continues in what looks like another parameter. */
const flawOfName = (name: string, besideSecret: boolean): string =>
  `has a parameter that is not accepted${besideSecret ? '' : ` (${name})`}: leave it out. These are accepted: ${PARAMETERS.join(', ')}.`
