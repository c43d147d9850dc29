// check: faults of the database, and findings that an operator should look after before they become faults.

import { Command, Option } from 'commander'
import { type Finding, guideTo, OF_THE_CHECK } from '../../core/findings.ts'
import { type Environment, showPlan } from '../../core/partner.ts'
import { Problem } from '../../core/problem.ts'
import { counted } from '../../core/text.ts'
import { DAY_MS, HOUR_MS, plus } from '../../core/time.ts'
import type { Fault } from '../../store/monitoring.ts'
import type { Store } from '../../store/store.ts'
import { type FindingJson, findingInWords, findingJson } from '../command.ts'
import type { Cli } from '../context.ts'
import { EXIT, failureOf } from '../exit-codes.ts'
import { envOption } from '../options.ts'
import { note, print, warn } from '../terminal.ts'
import { createPing, type Ping, pingUrl } from './ping.ts'
import { sandboxJson, sandboxLines } from './status-text.ts'

type CheckOptions = { strict?: true; daily?: true; ping?: URL; env: Environment }

export function checkCommand(cli: Cli): Command {
  return new Command('check')
    .description('verify the database and recompute the ledger; exits 3 when something is wrong')
    .option('--strict', 'exit 3 for warnings too')
    .option('--daily', 'for the daily job: implies --strict, and status warns if the next one does not come')
    .addOption(
      new Option('--ping <url>', 'call this URL after the check; URL/fail with the findings if it exits 3')
        .env('TRANCHE_CHECK_PING_URL')
        .argParser(pingUrl),
    )
    .addOption(envOption().default('live', 'live, and what concerns everybody'))
    .action(async (options: CheckOptions) => {
      const ping = monitorOf(cli, options)
      const { faults, warnings, sandboxes, additions } = await look(cli, options).catch(async (error) => {
        await ping(failureOf(error).message)
        throw error
      })
      const isStrict = options.strict || options.daily
      const ok = faults.length === 0 && (!isStrict || warnings.length === 0)
      const findings = [
        ...faults.map((fault) => findingJson(cli, faultFound(fault), 'error')),
        ...warnings.map((finding) => findingJson(cli, finding, 'warning')),
      ]
      print(cli, { ok, findings }, () => inWords(findings))
      // For a person only: mail from cron should be worth reading.
      if (cli.streams.err.isTTY) {
        for (const line of sandboxLines(sandboxes)) note(cli, `sandbox ${line}`)
        if (additions.length > 0) note(cli, `not made by tranche, and harmless: ${additions.join(', ')}`)
      }
      if (!ok) cli.exitWith(EXIT.found)
      await ping(ok ? null : inWords(findings))
    })
}

/** Without a monitor of its own, a daily check reports to that of the ticks, which must not take success for a tick. */
function monitorOf(cli: Cli, { ping, daily }: CheckOptions): Ping {
  const say = (message: string): void => warn(cli, message)
  const { TRANCHE_PING_URL: ofTicks } = process.env
  if (ping !== undefined || !daily || !ofTicks) return createPing(ping, say)
  const tell = createPing(pingUrl(ofTicks), say)
  return async (failure) => (failure === null ? undefined : tell(failure))
}

type Seen = {
  faults: Fault[]
  warnings: Finding[]
  sandboxes: ReturnType<typeof sandboxJson>[]
  additions: readonly string[]
}

async function look(cli: Cli, options: CheckOptions, isSecond = false): Promise<Seen> {
  const { env, daily } = options
  try {
    return await cli.withStore(
      async (store) => {
        let additions: readonly string[] = []
        const faults = await store.findFaults(undefined, (found) => {
          additions = found
        })
        const found = await unlessFound(faults, store.findWarnings(env))
        const warnings = found.filter(({ kind }) => !OF_CHECKS.includes(kind))
        // A damaged file may give no more than the faults found.
        const sandboxes = faults.length === 0 ? (await store.listSandboxes()).map(sandboxJson) : []
        if (env === 'live') await remember(cli, store, { faults, warnings, daily })
        return { faults, warnings, sandboxes, additions }
      },
      { saysMoved: true },
    )
  } catch (error) {
    if (!(error instanceof Problem && error.code === 'database_damaged')) throw error
    // A read that fails once looks like damage.
    if (!isSecond) return look(cli, options, true)
    // A file too damaged to be opened is a finding.
    const fault = { kind: 'integrity', subject: 'database', message: error.message }
    return { faults: [fault], warnings: [], sandboxes: [], additions: [] }
  }
}

/** Results that an earlier check has left for `status` are computed anew. */
const OF_CHECKS = ['check_found', 'check_old']

/** When the next daily check is overdue: a machine may have been off for a night. */
export const DUE_AGAIN_MS = 2 * DAY_MS + 2 * HOUR_MS

type Found = Pick<Seen, 'faults' | 'warnings'> & { daily: true | undefined }

/** For `status` and the metrics. A check that cannot record its result has still found its findings. */
async function remember(cli: Cli, store: Store, { faults, warnings, daily }: Found): Promise<void> {
  // A commit would never end, and status reports why.
  if (warnings.some(({ kind, severity }) => kind === 'standby_away' && severity === 'page')) return
  // Findings that status computes itself last as long as they are true.
  const others = warnings.filter(({ kind }) => OF_THE_CHECK.includes(kind))
  const { now } = await store.readClock()
  const result = {
    job: 'check',
    host: '',
    ok: faults.length === 0,
    endsAt: daily ? plus(now, DUE_AGAIN_MS) : null,
    message: [kindsInWords(faults, 'error'), kindsInWords(others, 'warning')].filter(Boolean).join(' and '),
    backups: null,
  } as const
  await unlessMoved(cli, 'check', store.noteResult(result))
}

/** Waits until a job has recorded its result for `status`. A failure to record does not fail the job. */
export const unlessMoved = (cli: Cli, job: 'check' | 'backup', noted: Promise<unknown>): Promise<unknown> =>
  noted.catch((error) => {
    if (!(error instanceof Problem && error.code === 'database_moved'))
      warn(cli, `status does not learn of this ${job}: ${(error as Error).message}`)
  })

/** `2 errors (integrity, row_changed)`; nothing for none. */
const kindsInWords = (found: readonly { kind: string }[], word: string): string =>
  found.length === 0
    ? ''
    : `${counted(found.length, word)} (${[...new Set(found.map(({ kind }) => kind))].join(', ')})`

/** Once damage has been found, it may also prevent warnings from being read. */
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
  next: fault.next ?? nextOf(fault),
})

/** The command that shows the row that is wrong; the guide, where there is no such row or it must be put back. */
function nextOf({ kind, subject }: Fault): readonly string[] {
  if (kind === 'integrity' || kind === 'foreign_key')
    return guideTo('reference#when-the-database-file-is-damaged')
  if (kind.endsWith('_changed')) return guideTo('reference#when-a-row-has-changed')
  const [partner = '', environment = ''] = subject.split(' ')
  const plan = /^\S+ (?:test|live) plan (.*?)(?: window \d\S+Z)?$/s.exec(subject)?.[1]
  if (plan !== undefined) return ['tranche', ...showPlan(plan, { partnerSlug: partner, environment })]
  const execution = /^(?:execution|trade) (exec_\w+)$/.exec(subject)?.[1]
  return execution === undefined
    ? guideTo('reference#what-check-finds')
    : ['tranche', 'execution', 'show', execution]
}

function inWords(findings: FindingJson[]): string {
  if (findings.length === 0) return 'ok'
  const errors = findings.filter(({ level }) => level === 'error').length
  const counts = `${counted(errors, 'error')}, ${counted(findings.length - errors, 'warning')}`
  return [...findings.map(findingInWords), counts].join('\n\n')
}
