// What --db names: a file, or a database on a server. A URL may hold a password, which belongs in no output.

import { Problem } from '../core/problem.ts'

const SERVER = /^postgres(ql)?:\/\//i
/** A URL of any kind, also in quotes that a shell would have taken off, or what PostgreSQL's own programs take for one. */
const ADDRESS_OF_ANY_KIND = /^["'\s]*([a-z][a-z0-9+.-]*:\/\/|postgres(ql)?:)|(^|\s)password\s*=/i
/** The parameters of an address that are secrets. */
const SECRETS = ['password', 'sslpassword']
const HIDDEN = 'postgres://***'

/** Whether it names a database on a PostgreSQL server. Anything else is a file. */
export const isServer = (db: string): boolean => SERVER.test(db)

/** The same as it may be shown and logged: without a password, and otherwise unchanged. */
export function shownAddress(db: string): string {
  if (!ADDRESS_OF_ANY_KIND.test(db)) return db
  const url = URL.parse(db)
  // Where a password with a slash ends is anybody's guess.
  if (!isServer(db) || !url || /@/.test(url.pathname + url.search + url.hash)) return HIDDEN
  const named = SECRETS.filter((name) => url.searchParams.has(name))
  if (url.password === '' && named.length === 0) return db
  if (url.password !== '') url.password = '***'
  for (const name of named) url.searchParams.set(name, '***')
  return url.href
}

/** Whether it holds what may not be shown: a hint then names the variable TRANCHE_DB. */
export const holdsSecret = (db: string): boolean => shownAddress(db) !== db

/** Stands in a command for the address that the variable holds; a shell reads it there. */
export const IN_VARIABLE = '$TRANCHE_DB'

/** How a command names it, of what may be shown of it: in the variable where that hides a password. */
export const namedInCommand = (shown: string): string => (shown.includes('***') ? IN_VARIABLE : shown)

/** A text that may quote addresses, of databases and others, without their passwords. */
export const withoutSecrets = (text: string): string =>
  text.replace(/[a-z][a-z0-9+.-]*:\/\/[^\s'"`]+/gi, (address) =>
    isServer(address) ? shownAddress(address) : address.replace(/\/\/[^/@]*:.*@/, '//***@'),
  )

/** Throws usage for what looks like an address and is none of a PostgreSQL database. */
export function refuseNoAddress(db: string): void {
  if (!ADDRESS_OF_ANY_KIND.test(db)) return
  if (!isServer(db))
    throw new Problem(
      'usage',
      '--db takes a file or an address that begins with postgres://, and this is neither.',
    )
  const flaw = flawOfHost(db)
  if (flaw) throw new Problem('usage', `The address of the database ${flaw}`)
  if (shownAddress(db) === HIDDEN)
    throw new Problem(
      'usage',
      'The address of the database cannot be read: in its password, a character that is not a letter or digit is written ' +
        'as %XX, such as %2F for / and %40 for @.',
    )
}

/** What is wrong with the hosts that an address names, where it is certain which part of it that is. */
function flawOfHost(db: string): string | null {
  const [, authority = '', rest = ''] = /^[a-z]+:\/\/([^/?#]*)(.*)$/is.exec(db) ?? []
  // Else a password with a slash is what comes before.
  if (rest.includes('@')) return null
  const host = authority.slice(authority.lastIndexOf('@') + 1)
  if (host.includes(',') || /[?&]host=[^&]*(,|%2c)/i.test(rest))
    return 'names several hosts. Name one: the primary, or a proxy that knows which that is.'
  const [, port] = /^(?:\[[^\]]*\]|[^:]*):(.+)$/.exec(host) ?? []
  if (port !== undefined && !(/^\d+$/.test(port) && Number(port) >= 1 && Number(port) <= PORT_MAX))
    return `has a port that is not a number from 1 to ${PORT_MAX}.`
  return null
}

const PORT_MAX = 65_535
