// Shared by commands: finding the named partner, the entry in the audit log, how findings are shown, and the command
// line that a message suggests.

import type { Finding } from '../core/findings.ts'
import type { Environment, Partner, Tenant } from '../core/partner.ts'
import { notFound } from '../core/problem.ts'
import { quoted, visible } from '../core/text.ts'
import { holdsSecret, IN_VARIABLE } from '../store/address.ts'
import type { AuditEntry, Store, TenantFilter } from '../store/store.ts'
import type { Cli } from './context.ts'

// The beginning of a command line for another than the default database.

/** A password stays in the variable: every user of the machine can read a command line. */
export const onDatabase = (program: string, db: string): string =>
  holdsSecret(db) ? `TRANCHE_DB="$TRANCHE_DB" ${program}` : `${program} --db ${quoted(db)}`

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

/** The tenants that a list is about: all, unless the command line names some. Throws partner_not_found. */
export async function filterOf(
  store: Store,
  { partner, env }: { partner?: string; env?: Environment },
): Promise<TenantFilter> {
  if (partner !== undefined) await partnerNamed(store, partner)
  return { slug: partner ?? null, environment: env ?? null }
}

export const auditEntry = (
  cli: Cli,
  action: string,
  subject: string,
  detail: Record<string, unknown> = {},
): AuditEntry => ({ osUser: cli.machine.osUser(), action, subject, detail })

// Findings as `check` and `status` show them: the same fields for a script, the same words for a person.

/** `mend` is the command that fixes the finding, or shows more about it. */
export const findingJson = (cli: Pick<Cli, 'self'>, finding: Finding, level: 'error' | 'warning') => ({
  level,
  kind: finding.kind,
  severity: finding.severity,
  partner_slug: finding.tenant?.partnerSlug ?? null,
  environment: finding.tenant?.environment ?? null,
  subject: finding.subject,
  message: finding.message,
  mend: commandLine(cli.self(), finding.next),
})

export type FindingJson = ReturnType<typeof findingJson>

/** The shell command line of a finding's next command, on the same database. */
export const commandLine = (self: string, [program = '', ...words]: readonly string[]): string =>
  [program === 'tranche' ? self : withRights(self, program), ...words.map(wordOf)].join(' ')

/** A fault in the service's files is fixed by root or the service's user. psql logs in as a user of its own. */
const withRights = (self: string, program: string): string =>
  self.startsWith('sudo ') && program !== 'psql' ? `sudo ${program}` : program

const wordOf = (word: string): string => (word === IN_VARIABLE ? `"${word}"` : quoted(word))

export const findingInWords = ({ level, severity, kind, subject, message, mend }: FindingJson): string =>
  [
    `${(level === 'warning' && severity === 'page' ? 'urgent' : level).padEnd(7)}  ${kind}  ${subject}`,
    message,
    `> ${mend}`,
  ]
    .map(visible)
    .join('\n         ')
