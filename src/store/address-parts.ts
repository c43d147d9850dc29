// The parts of the address of a database on a server, and what may be wrong with them. It is read as PostgreSQL's own
// programs read one, except that parameters that would be ignored are refused.

/** As they are written. `path` begins with its slash, and is empty when there is none. */
export type AddressParts = {
  scheme: string
  user: string | null
  password: string | null
  host: string
  path: string
  parameters: string[]
}

/** What comes before the first slash, question mark or hash ends with the host, so a password has none of them. */
const FORM = /^(postgres(?:ql)?:\/\/)(?:([^/?#]*)@)?([^/?#@]*)((?:\/[^?#@]*)?)(?:\?([^#@]*))?$/is

/** Null for an address that cannot be taken apart with certainty. */
export function splitAddress(db: string): AddressParts | null {
  const [, scheme, login, host = '', path = '', query = ''] = FORM.exec(db) ?? []
  if (scheme === undefined) return null
  const [user, password] = login === undefined ? [null, null] : cutAt(login, ':')
  return { scheme, user, password, host, path, parameters: query === '' ? [] : query.split('&') }
}

/** What is before the first such character, and what is after it; null when there is none. */
function cutAt(text: string, sign: string): [string, string | null] {
  const at = text.indexOf(sign)
  return at < 0 ? [text, null] : [text.slice(0, at), text.slice(at + 1)]
}

/** The parameters that are accepted. */
export const PARAMETERS = [
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
export const isTaken = (name: string): boolean => (PARAMETERS as readonly string[]).includes(name)

/** Whether the value of a parameter is a secret. For a parameter that is not accepted, nobody can tell. */
export const isSecret = (parameter: string): boolean => {
  const [name] = cutAt(parameter, '=')
  return name === 'password' || (!isTaken(name) && /pass|pwd|secret|token|%/i.test(name))
}

/** What an address says, decoded; null for what it leaves out. */
export type AddressValues = Record<(typeof PARAMETERS)[number], string | null>

/** The values of an address that has no flaw. A parameter overrides the same part elsewhere in the address. */
export function addressValues(db: string): AddressValues {
  const parts = splitAddress(db)
  if (!parts) throw new Error('not an address')
  const { user, password, path, parameters } = parts
  const { host, port } = hostAndPort(parts.host)
  const said: Record<string, string | null> = { host, port, user, password, dbname: path.slice(1) }
  for (const parameter of parameters) {
    const [name, value] = cutAt(parameter, '=')
    said[name] = value
  }
  const entries = PARAMETERS.map((name) => [name, decodeURIComponent(said[name] ?? '') || null])
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

/** All but the first and the last encrypt, and check the server's certificate and its name. The last only encrypts. */
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

/** What is wrong with an address of a server, as the rest of a sentence about it; null when it can be tried. */
export function flawOf(db: string): string | null {
  const parts = splitAddress(db)
  if (!parts) {
    const [, authority = '', rest = ''] = /^[a-z]+:\/\/([^/?#]*)(.*)$/is.exec(db) ?? []
    // Otherwise, what comes before is a password that contains a slash.
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
