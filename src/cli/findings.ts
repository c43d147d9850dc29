// Findings as `check` and `status` show them: the same fields for a script, the same words for a person.

import type { Finding } from '../core/findings.ts'
import { visible } from '../core/text.ts'
import { commandLine, onSameDatabase } from './command-line.ts'
import type { Cli } from './context.ts'

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

/** An urgent finding is marked. */
export const findingInWords = ({ level, severity, kind, subject, message, mend }: FindingJson): string =>
  [
    `${(level === 'warning' && severity === 'page' ? 'urgent' : level).padEnd(7)}  ${kind}  ${subject}`,
    message,
    `> ${mend}`,
  ]
    .map(visible)
    .join('\n         ')
