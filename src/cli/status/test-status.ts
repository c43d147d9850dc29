// The status of the test environments, for those who integrate: what is in them, and fills with odd figures.

import { counted } from '../../core/counted.ts'
import type { Finding } from '../../core/findings.ts'
import { formatInstant } from '../../core/instant.ts'
import type { Cli } from '../context.ts'
import { findingInWords, findingJson } from '../shared/findings.ts'
import { renderFields } from '../terminal/table.ts'
import type { Health } from './printed-status.ts'
import { sandboxJson, sandboxLines } from './sandboxes.ts'

export const testStatusJson = (
  cli: Pick<Cli, 'self'>,
  { at, stock, backlog, sandboxes }: Health,
  findings: readonly Finding[],
) => ({
  at: formatInstant(at),
  environment: 'test',
  plans: stock.plans.test,
  executions_open: backlog.test.open,
  due_backlog: backlog.test.due,
  sandboxes: sandboxes.map(sandboxJson),
  findings: findings.map((finding) => findingJson(cli, finding, 'warning')),
})

export function testStatusInWords(json: ReturnType<typeof testStatusJson>): string {
  const { plans, sandboxes, findings } = json
  const fields = {
    environment: json.environment,
    plans: `${plans.active} active, ${plans.paused} paused, ${plans.cancelled} cancelled`,
    'open executions': json.executions_open,
    'due now': json.due_backlog,
    ...(sandboxes.length > 0 && { sandboxes: sandboxLines(sandboxes).join(', ') }),
    warnings: findings.length === 0 ? 'none' : counted(findings.length, 'fill'),
  }
  return [renderFields(fields), ...findings.map(findingInWords)].join('\n\n')
}
