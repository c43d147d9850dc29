// check: faults in the database and the ledger, and what an operator should look after before it becomes a fault.

import { Command } from 'commander'
import { counted } from '../core/counted.ts'
import type { Finding } from '../core/findings.ts'
import type { Environment } from '../core/partner.ts'
import { Problem } from '../core/problem.ts'
import { showPlan } from '../core/tenant-words.ts'
import type { Fault } from '../store/check.ts'
import type { Cli } from './context.ts'
import { environmentOption } from './options/values.ts'
import { EXIT } from './shared/exit-codes.ts'
import { type FindingJson, findingInWords, findingJson } from './shared/findings.ts'
import { sandboxJson, sandboxLines } from './status/sandboxes.ts'
import { note, print } from './terminal/print.ts'

export function checkCommand(cli: Cli): Command {
  return new Command('check')
    .description('verify the database and recompute the ledger; exits 3 when something is wrong')
    .option('--strict', 'exit 3 for warnings too')
    .addOption(environmentOption().default('live', 'live, and what concerns everybody'))
    .action(async ({ strict = false, env }: { strict?: boolean; env: Environment }) => {
      const { faults, warnings, sandboxes } = await look(cli, env)
      const ok = faults.length === 0 && (!strict || warnings.length === 0)
      const findings = [
        ...faults.map((fault) => findingJson(cli, faultFound(fault), 'error')),
        ...warnings.map((finding) => findingJson(cli, finding, 'warning')),
      ]
      print(cli, { ok, findings }, () => inWords(findings))
      // For a person only: what cron mails should be worth reading.
      if (cli.streams.err.isTTY) for (const line of sandboxLines(sandboxes)) note(cli, `sandbox ${line}`)
      if (!ok) cli.exitWith(EXIT.found)
    })
}

type Seen = { faults: Fault[]; warnings: Finding[]; sandboxes: ReturnType<typeof sandboxJson>[] }

async function look(cli: Cli, environment: Environment): Promise<Seen> {
  try {
    return await cli.withStore(
      async (store) => {
        const faults = await store.findFaults()
        const warnings = await unlessFound(faults, store.findWarnings(environment))
        // A damaged file may have nothing more to say than what was found.
        const sandboxes = faults.length === 0 ? (await store.listSandboxes()).map(sandboxJson) : []
        return { faults, warnings, sandboxes }
      },
      { saysSeal: true },
    )
  } catch (error) {
    // So damaged that it cannot even be opened: that is the finding.
    if (!(error instanceof Problem && error.code === 'database_damaged')) throw error
    const fault = { kind: 'integrity', subject: 'database', message: error.message }
    return { faults: [fault], warnings: [], sandboxes: [] }
  }
}

/** Once damage has been found, it may well keep warnings from being read, in whatever way. */
async function unlessFound(faults: readonly Fault[], looking: Promise<Finding[]>): Promise<Finding[]> {
  try {
    return await looking
  } catch (error) {
    if (faults.length > 0) return []
    throw error
  }
}

/** Nothing is more urgent than wrong books. */
const faultFound = (fault: Fault): Finding => ({
  ...fault,
  severity: 'page',
  tenant: null,
  next: fault.next ?? ['tranche', ...nextOf(fault)],
})

/** The command that shows what there is to know about the row that is wrong. */
function nextOf({ subject }: Fault): string[] {
  const [partner = '', environment = ''] = subject.split(' ')
  const plan = /^\S+ (?:test|live) plan (.*?)(?: window \d\S+Z)?$/s.exec(subject)?.[1]
  if (plan !== undefined) return showPlan(plan, { partnerSlug: partner, environment })
  const execution = /^(?:execution|trade) (exec_\w+)$/.exec(subject)?.[1]
  return execution === undefined ? ['restore', 'BACKUP'] : ['execution', 'show', execution]
}

function inWords(findings: FindingJson[]): string {
  if (findings.length === 0) return 'ok'
  const errors = findings.filter(({ level }) => level === 'error').length
  const counts = `${counted(errors, 'error')}, ${counted(findings.length - errors, 'warning')}`
  return [...findings.map(findingInWords), counts].join('\n\n')
}
