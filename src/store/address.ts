// What --db names: a file, or a database on a server. A URL may hold a password, which belongs in no output.

import { Problem } from '../core/problem.ts'
import { type AddressParts, flawOf, isSecret, isTaken, splitAddress } from './address-parts.ts'

const SERVER = /^postgres(ql)?:\/\//i
/** What is meant as an address, even inside quotes that a shell would have removed: it may hold a password. */
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

/** Whether it names a database on a PostgreSQL server. Anything else is a file. */
export const isServer = (db: string): boolean => SERVER.test(db)

/** The same as it may be shown and logged: without a password, and otherwise unchanged. */
export function shownAddress(db: string): string {
  if (!isAddressOfAnyKind(db)) return db
  const parts = splitAddress(db)
  // Nobody can tell where a password with a slash ends.
  if (!parts) return HIDDEN
  if (!parts.password && !parts.parameters.some(isSecret)) return db
  const parameters = withoutSecretsOf(parts.parameters)
  return joined({ ...parts, password: parts.password && '***', parameters })
}

/**
 * A password that contains a & continues in what looks like another parameter. So beside a secret, everything but the
 * accepted parameters is hidden.
 */
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

/** Whether it holds anything that may not be shown: a hint then names the variable TRANCHE_DB. */
export const holdsSecret = (db: string): boolean => shownAddress(db) !== db

/** Takes the place, in a command, of the address that the variable holds; a shell reads it there. */
export const IN_VARIABLE = '$TRANCHE_DB'

/** How a command names it, of what may be shown of it: in the variable where that hides a password. */
export const namedInCommand = (shown: string): string => (shown.includes('***') ? IN_VARIABLE : shown)

/** A text that may quote addresses, of databases and others, without their passwords. */
export const withoutSecrets = (text: string): string =>
  text.replace(/[a-z][a-z0-9+.-]*:\/\/[^\s'"`]+/gi, (address) =>
    isServer(address) ? shownAddress(address) : address.replace(/\/\/[^/@]*:.*@/, '//***@'),
  )

/**
 * Throws usage for what looks like an address but is not that of a PostgreSQL database, or asks for something
 * unsupported.
 */
export function refuseNoAddress(db: string): void {
  if (!isAddressOfAnyKind(db)) return
  if (!isServer(db))
    throw new Problem(
      'usage',
      '--db and TRANCHE_DB take a file or an address that begins with postgres://, and this is neither. ' +
        'For a file that is called like an address, give the path: ./NAME.',
    )
  const flaw = flawOf(db)
  if (flaw) throw new Problem('usage', `The address of the database ${flaw}`)
}
