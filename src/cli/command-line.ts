// What a command line says: the partner that it names, and how one is written that a message suggests.

import type { Environment, Partner, Tenant } from '../core/partner.ts'
import { notFound } from '../core/problem.ts'
import { quoted } from '../core/text.ts'
import { holdsSecret, IN_VARIABLE } from '../store/address.ts'
import type { Store } from '../store/store.ts'

// The partner or the environment that a command line names.

/** Throws partner_not_found. */
export async function partnerNamed(store: Store, slug: string): Promise<Partner> {
  const partner = await store.findPartner(slug)
  if (!partner) throw notFound('partner', slug)
  return partner
}

/** Throws partner_not_found. */
export async function tenantNamed(store: Store, slug: string, environment: Environment): Promise<Tenant> {
  const tenant = await store.findTenant(slug, environment)
  if (!tenant) throw notFound('partner', slug)
  return tenant
}

// The command line that a message suggests.

/** A password stays in the variable: on a command line, every user of the machine could read it. */
export const onDatabase = (program: string, db: string): string =>
  holdsSecret(db) ? `TRANCHE_DB="$TRANCHE_DB" ${program}` : `${program} --db ${quoted(db)}`

/**
 * Lets the commands in a message begin with `self`, so that they name the present database: the code that words a
 * message does not know how the database was named.
 */
export const onSameDatabase = (message: string, self: string): string =>
  message.replace(/`tranche (?!-|docs |copy |backup)/g, () => `\`${self} `)

/** The shell command line of a finding's next command, on the same database. */
export const commandLine = (self: string, [program = '', ...words]: readonly string[]): string =>
  [program === 'tranche' ? self : withRights(self, program), ...words.map(wordOf)].join(' ')

/** What is wrong with the service's files is mended by root or their user. psql logs in as a user of its own. */
const withRights = (self: string, program: string): string =>
  self.startsWith('sudo ') && program !== 'psql' ? `sudo ${program}` : program

const wordOf = (word: string): string => (word === IN_VARIABLE ? `"${word}"` : quoted(word))
