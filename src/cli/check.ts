// check: faults of the file and the ledger, and what an operator should look after before it becomes one.

import { Command } from 'commander'
import { counted } from '../core/counted.ts'
import { Problem } from '../core/problem.ts'
import { quoted } from '../core/quote.ts'
import { visible } from '../core/visible.ts'
import type { Finding } from '../store/check.ts'
import type { Cli } from './context.ts'
import { EXIT } from './exit-codes.ts'
import { sandboxJson, sandboxLines } from './status/sandboxes.ts'
import { note, print } from './terminal/print.ts'

type Level = 'error' | 'warning'
type Reported = { level: Level } & Finding & { mend: string }

export function checkCommand(cli: Cli): Command {
  return new Command('check')
    .description('verify the file and recompute the ledger; exits 3 when something is wrong')
    .option('--strict', 'exit 3 for warnings too')
    .action(async ({ strict = false }: { strict?: boolean }) => {
      const { faults, warnings, sandboxes } = await look(cli)
      const ok = faults.length === 0 && (!strict || warnings.length === 0)
      const findings = [
        ...faults.map((finding) => reported(cli, 'error', finding)),
        ...warnings.map((finding) => reported(cli, 'warning', finding)),
      ]
      print(cli, { ok, findings }, () => inWords(findings))
      // For a person only: what cron mails is worth reading.
      if (cli.streams.err.isTTY) for (const line of sandboxLines(sandboxes)) note(cli, `sandbox ${line}`)
      if (!ok) cli.exitWith(EXIT.found)
    })
}

type Seen = { faults: Finding[]; warnings: Finding[]; sandboxes: ReturnType<typeof sandboxJson>[] }

async function look(cli: Cli): Promise<Seen> {
  try {
    return await cli.withStore(async (store) => {
      const faults = await store.findFaults()
      const warnings = await store.findWarnings()
      // A damaged file may have nothing more to say than what was found.
      const sandboxes = faults.length === 0 ? (await store.listSandboxes()).map(sandboxJson) : []
      return { faults, warnings, sandboxes }
    })
  } catch (error) {
    // So damaged that it cannot even be opened: that is what was to be found out.
    if (!(error instanceof Problem && error.code === 'database_damaged')) throw error
    const fault = { kind: 'integrity', subject: 'database', message: error.message }
    return { faults: [fault], warnings: [], sandboxes: [] }
  }
}

const reported = (cli: Cli, level: Level, { kind, subject, message }: Finding): Reported => ({
  level,
  kind,
  subject,
  message,
  mend: mendOf({ kind, subject }, cli.self()),
})

/** The command that mends what was found, or shows what there is to know about it; `tranche` is how one begins. */
function mendOf({ kind, subject }: Pick<Finding, 'kind' | 'subject'>, tranche: string): string {
  const [partner = '', environment = ''] = subject.split(' ')
  const tenant = `${partner} --env ${environment}`
  switch (kind) {
    case 'key_ends':
      return `${tranche} key rotate ${subject.split(' ').at(-1)}`
    case 'ticks_stopped':
      return `${tranche} tick`
    case 'executions_stuck':
      return `${tranche} execution list --stuck --partner ${tenant}`
    case 'late_fills':
      return `${tranche} execution late-fills`
    case 'windows_ahead':
      return `${tranche} plan bring-back --partner ${tenant}`
    case 'webhook_failing':
      return `${tranche} webhook test ${tenant}`
    case 'webhook_paused':
      return `${tranche} webhook test ${tenant} && ${tranche} webhook resume ${tenant}`
    case 'clock_back':
    case 'clock_disputed':
      return 'timedatectl status'
    case 'wal_large':
      return `lsof ${quoted(subject)}`
    case 'file_open':
      return `chmod 600 ${quoted(subject)}`
    case 'import_left':
      return `${tranche} price import FILE`
  }
  const plan = /^\S+ (?:test|live) plan (.*?)(?: window \d\S+Z)?$/s.exec(subject)?.[1]
  // Plans of several partners and environments may have one name, and a name may look like an option.
  if (plan?.startsWith('-')) return `${tranche} plan show --partner ${tenant} -- ${quoted(plan)}`
  if (plan !== undefined) return `${tranche} plan show ${quoted(plan)} --partner ${tenant}`
  const execution = /^(?:execution|trade) (exec_\w+)$/.exec(subject)?.[1]
  if (execution !== undefined) return `${tranche} execution show ${execution}`
  return `${tranche} restore BACKUP`
}

function inWords(findings: Reported[]): string {
  if (findings.length === 0) return 'ok'
  const errors = findings.filter(({ level }) => level === 'error').length
  return [
    ...findings.map(({ level, kind, subject, message, mend }) =>
      [`${level.padEnd(7)}  ${kind}  ${subject}`, message, `> ${mend}`].map(visible).join('\n         '),
    ),
    `${counted(errors, 'error')}, ${counted(findings.length - errors, 'warning')}`,
  ].join('\n\n')
}
