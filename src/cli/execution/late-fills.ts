// execution late-fills, accept-late and dismiss-late: reports of purchases that were refused, and an operator's
// decision.

import type { Command } from 'commander'
import { counted } from '../../core/counted.ts'
import { type Acceptance, acceptLate, severalWait } from '../../core/decide-late-fill.ts'
import type { Cli } from '../context.ts'
import { optionalReason, reasonOption, wholeNumber } from '../options/values.ts'
import { auditEntry } from '../shared/audit-entry.ts'
import { commandLine } from '../shared/findings.ts'
import { confirmOnTerminal } from '../terminal/ask.ts'
import { note, print, printList } from '../terminal/print.ts'
import { type Column, renderFields } from '../terminal/table.ts'
import { adjustmentFillJson, correctionJson, lateJson, tradeJson } from './json.ts'

const REASONS = `
REASON says why a report was refused:
  execution_cancelled      the execution was cancelled by then
  execution_recorded       another outcome is on record
  amount_over_reservation  it is above what was reserved
  order_id_taken           another execution holds its order id
  execution_pending        the execution had not been handed out yet`

export function addLateFillCommands(cli: Cli, execution: Command): void {
  execution
    .command('late-fills')
    .description('fills that partners reported and were refused: real money may have moved')
    .addHelpText('after', REASONS)
    .action(() =>
      cli.withStore((store) =>
        printList(cli, {
          read: (page) => store.listLateFills(page),
          cursor: (row) => row.reportId,
          json: lateJson,
          columns: COLUMNS,
        }),
      ),
    )

  execution
    .command('accept-late')
    .description('record a late fill: the partner really bought, whatever the reservation was')
    .argument('<execution-id>')
    .addOption(reportOption(execution))
    .addOption(optionalReason('why, for anyone who looks at it later'))
    .action(async (executionId: string, { report, reason }: { report?: number; reason?: string }) => {
      await confirmOnTerminal(cli, `Record the late fill of ${executionId}? It will be billed.`)
      await cli.withStore(async (store) => {
        const ids = { executionId, reportId: report ?? null, reason }
        const made = await store.acceptLateReport(ids, acceptLate, (_, { reportId }) =>
          auditEntry(cli, 'execution.accept-late', executionId, { report_id: reportId, reason }),
        )
        const json = acceptanceJson(executionId, made)
        print(cli, json, () => renderFields(json))
        if (made.waiting.length > 0) note(cli, stillWaiting(cli, executionId, made.waiting))
      })
    })

  execution
    .command('dismiss-late')
    .description('decide that a late fill of an execution is not a purchase of its own; it stays listed')
    .argument('<execution-id>')
    .addOption(reportOption(execution).conflicts('all'))
    .option('--all', 'all of its late fills that wait for a decision')
    .addOption(reasonOption('why, for anyone who looks at it later'))
    .action(async (executionId: string, { report, all, reason }: Dismissal) => {
      await confirmOnTerminal(cli, `Dismiss what was reported of ${executionId}? It will not be billed.`)
      await cli.withStore(async (store) => {
        const ids = { executionId, reportId: report ?? null, reason }
        const dismissed = await store.dismissLateReports(ids, (late) => {
          // Money may have moved in each of them. Thrown here, in the transaction, it leaves all of them waiting.
          if (!all && late.length > 1)
            throw severalWait(executionId, late, 'name one with --report, or dismiss them with --all.')
          const detail = { report_ids: late.map(({ reportId }) => reportId), reason }
          return auditEntry(cli, 'execution.dismiss-late', executionId, detail)
        })
        const json = {
          execution_id: executionId,
          report_ids: dismissed.map(({ reportId }) => reportId),
          reason,
        }
        print(cli, json, () => renderFields({ ...json, report_ids: json.report_ids.join(', ') }))
      })
    })
}

type Dismissal = { report?: number; all?: boolean; reason: string }

const reportOption = (execution: Command) =>
  execution
    .createOption('--report <number>', 'which report, when there are several')
    .argParser(wholeNumber(1, 999_999_999))

/** What says something else of an order is not decided by what was accepted, and nothing that was bought is dropped. */
function stillWaiting(cli: Cli, executionId: string, waiting: readonly number[]): string {
  const [first] = waiting
  const argv = [
    'tranche',
    'execution',
    'dismiss-late',
    executionId,
    '--report',
    `${first}`,
    '--reason',
    'WHY',
  ]
  const which = `${counted(waiting.length, 'late fill')} of this execution still ${waiting.length === 1 ? 'waits' : 'wait'} for a decision`
  return `${which} (report ${waiting.join(', ')}): accept what was bought besides; end what was not with ${commandLine(cli.self(), argv)}`
}

const acceptanceJson = (executionId: string, made: Acceptance) =>
  made.kind === 'adjusted'
    ? { ...correctionJson(made), ...adjustmentFillJson(made.adjustment) }
    : { execution_id: executionId, ...tradeJson(made.trade) }

const COLUMNS: Column<ReturnType<typeof lateJson>>[] = [
  { title: 'REPORT', of: (row) => row.report_id, right: true },
  { title: 'EXECUTION', of: (row) => row.execution_id },
  { title: 'PARTNER', of: (row) => row.partner_slug },
  { title: 'ENV', of: (row) => row.environment },
  { title: 'PLAN', of: (row) => row.partner_plan_id },
  { title: 'ORDER', of: (row) => row.partner_order_id },
  { title: 'USD', of: (row) => row.usd_amount, right: true },
  { title: 'BTC', of: (row) => row.btc_amount, right: true },
  { title: 'REASON', of: (row) => row.reason },
  { title: 'RECEIVED', of: (row) => row.received_at },
  { title: 'ACCEPTED', of: (row) => row.accepted_at },
  { title: 'DECIDED', of: (row) => row.decided_at },
]
