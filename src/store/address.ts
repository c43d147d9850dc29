// What --db names: a file, or a database on a server. A URL may hold a password, which belongs in no output.

import { Problem } from '../core/problem.ts'
import { type AddressParts, flawOf, isSecret, isTaken, splitAddress } from './address-parts.ts'

const SERVER = /^postgres(ql)?:\/\//i
/** A URL of any kind, also in quotes that a shell would have taken off, or what PostgreSQL's own programs take for one. */
const ADDRESS_OF_ANY_KIND = /^["'\s]*([a-z][a-z0-9+.-]*:\/\/|postgres(ql)?:)|(^|\s)password\s*=/i
const HIDDEN = 'postgres://***'

/** Whether it names a database on a PostgreSQL server. Anything else is a file. */
export const isServer = (db: string): boolean => SERVER.test(db)

/** The same as it may be shown and logged: without a password, and otherwise unchanged. */
export function shownAddress(db: string): string {
  if (!ADDRESS_OF_ANY_KIND.test(db)) return db
  const parts = splitAddress(db)
  // Where a password with a slash ends is anybody's guess.
  if (!parts) return HIDDEN
  if (!parts.password && !parts.parameters.some(isSecret)) return db
  const parameters = withoutSecretsOf(parts.parameters)
  return joined({ ...parts, password: parts.password && '***', parameters })
}

/** A password with a & in it goes on in what looks like another parameter: beside a secret, all but what is taken is hidden. */
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

/** Whether it holds what may not be shown: a hint then names the variable TRANCHE_DB. */
export const holdsSecret = (db: string): boolean => shownAddress(db) !== db

/** A text that may quote addresses, of databases and others, without their passwords. */
export const withoutSecrets = (text: string): string =>
  text.replace(/[a-z][a-z0-9+.-]*:\/\/[^\s'"`]+/gi, (address) =>
    isServer(address) ? shownAddress(address) : address.replace(/\/\/[^/@]*:.*@/, '//***@'),
  )

/** Throws usage for what looks like an address and is none of a PostgreSQL database, or asks for what is not done. */
export function refuseNoAddress(db: string): void {
  if (!ADDRESS_OF_ANY_KIND.test(db)) return
  if (!isServer(db))
    throw new Problem(
      'usage',
      '--db takes a file or an address that begins with postgres://, and this is neither.',
    )
  const flaw = flawOf(db)
  if (flaw) throw new Problem('usage', `The address of the database ${flaw}`)
}
