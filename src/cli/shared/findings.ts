// Findings as check and status show them: the same fields for a script, the same words for a person.

import type { Finding } from '../../core/findings.ts'
import { quoted } from '../../core/shell-word.ts'
import { visible } from '../../core/visible-text.ts'
import { IN_VARIABLE } from '../../store/address.ts'
import type { Cli } from '../context.ts'
import { onSameDatabase } from './on-database.ts'

/** `mend` is the command that fixes what was found, or shows more about it. */
export const findingJson = (cli: Pick<Cli, 'self'>, finding: Finding, level: 'error' | 'warning') => ({
  level,
  kind: finding.kind,
  severity: finding.severity,
  partner_slug: finding.tenant?.partnerSlug ?? null,
  environment: finding.tenant?.environment ?? null,
  subject: finding.subject,
  message: onSameDatabase(finding.message, cli.self()),
  mend: commandLine(cli.self(), finding.next),
})

export type FindingJson = ReturnType<typeof findingJson>

/** A shell command line that does so, on the same database. */
export const commandLine = (self: string, [program = '', ...words]: readonly string[]): string =>
  [program === 'tranche' ? self : program, ...words.map(wordOf)].join(' ')

const wordOf = (word: string): string => (word === IN_VARIABLE ? `"${word}"` : quoted(word))

/** A finding that should wake somebody says so. */
export const findingInWords = ({ level, severity, kind, subject, message, mend }: FindingJson): string =>
  [
    `${(level === 'warning' && severity === 'page' ? 'urgent' : level).padEnd(7)}  ${kind}  ${subject}`,
    message,
    `> ${mend}`,
  ]
    .map(visible)
    .join('\n         ')
