// status, check and migrate: how an operator sees whether all is well.

import { Command } from 'commander'
import { DAY_MS, formatInstant, type Instant, plus } from '../core/instant.ts'
import { formatUsd } from '../core/money.ts'
import type { Finding, Status } from '../store/store.ts'
import { type Cli, type Column, note, print, renderFields, renderTable } from './cli.ts'
import { EXIT } from './exit.ts'
import { sandboxesJson, sandboxLines } from './sandbox-json.ts'

/** How far back status looks for windows that ended with money unspent. */
const UNSPENT_DAYS = 7

export function statusCommand(cli: Cli): Command {
  return new Command('status').description('how the scheduler and the plans are doing').action(() =>
    cli.withStore(async (store) => {
      const now = cli.machine.clock()
      const status = statusJson(await store.readStatus(now, plus(now, -UNSPENT_DAYS * DAY_MS)), now)
      const json = { ...status, sandboxes: sandboxesJson(await store.listSandboxes()) }
      print(cli, json, () => inWords(json))
    }),
  )
}

export function checkCommand(cli: Cli): Command {
  return new Command('check')
    .description('verify the file and recompute the ledger; exits 3 when something is off')
    .action(() =>
      cli.withStore(async (store) => {
        const findings = await store.findFaults()
        const table = findings.length === 0 ? 'ok' : await renderTable(FINDING_COLUMNS, findings)
        print(cli, { ok: findings.length === 0, findings }, () => table)
        // A damaged file may have nothing more to say than what was found.
        const sandboxes = findings.length === 0 ? sandboxesJson(await store.listSandboxes()) : []
        for (const line of sandboxLines(sandboxes)) note(cli, `sandbox ${line}`)
        if (findings.length > 0) cli.exitWith(EXIT.found)
      }),
    )
}

export function migrateCommand(cli: Cli): Command {
  return new Command('migrate')
    .description('bring the database to the schema of this version')
    .option('--status', 'only show which migrations are applied')
    .action(async ({ status }: { status?: boolean }) => {
      const { readMigrationStates } = await import('../store/sqlite/open.ts')
      const { describeMigration } = await import('../store/sqlite/migrate.ts')
      if (!status) await cli.withStore(async () => {}, { create: true })
      const states = await readMigrationStates(cli.globals().db)
      const json = states.map(({ name, appliedAt }) => ({
        name,
        applied_at: appliedAt === null ? null : formatInstant(appliedAt),
      }))
      print(cli, json, () => states.map(describeMigration).join('\n'))
    })
}

const seconds = (from: Instant | null, to: Instant): number | null =>
  from === null ? null : Math.max(0, Math.round((to - from) / 1000))

const statusJson = (status: Status, now: Instant) => ({
  at: formatInstant(now),
  last_tick_at: status.lastTick && formatInstant(status.lastTick.at),
  last_tick_age_seconds: seconds(status.lastTick?.at ?? null, now),
  plans: status.plans,
  partners: status.partners,
  executions_open: status.openExecutions,
  due_backlog: status.due.count,
  oldest_due_age_seconds: seconds(status.due.oldestAt, now),
  paused_webhooks: status.pausedWebhooks.map(({ partnerSlug, environment }) => ({
    partner_slug: partnerSlug,
    environment,
  })),
  unspent_windows: {
    since: formatInstant(status.unspentWindows.since),
    count: status.unspentWindows.count,
    released_usd: formatUsd(status.unspentWindows.released),
  },
})

type StatusJson = ReturnType<typeof statusJson> & { sandboxes: ReturnType<typeof sandboxesJson> }

function inWords(json: StatusJson): string {
  const { plans, partners, unspent_windows: unspent, sandboxes } = json
  return renderFields({
    'last tick': json.last_tick_at
      ? `${json.last_tick_at} (${age(json.last_tick_age_seconds)} ago)`
      : 'never',
    plans: `${plans.active} active, ${plans.paused} paused, ${plans.cancelled} cancelled`,
    partners: `${partners.active} active, ${partners.disabled} disabled`,
    'open executions': json.executions_open,
    'due now':
      json.due_backlog === 0
        ? '0'
        : `${json.due_backlog}, the oldest for ${age(json.oldest_due_age_seconds)}`,
    'paused webhooks':
      json.paused_webhooks.map((paused) => `${paused.partner_slug} ${paused.environment}`).join(', ') ||
      'none',
    'ended unspent': `${unspent.count} windows in ${UNSPENT_DAYS} days, ${unspent.released_usd} USD`,
    ...(sandboxes.length > 0 && { sandboxes: sandboxLines(sandboxes).join(', ') }),
  })
}

function age(seconds: number | null): string {
  if (seconds === null) return '-'
  if (seconds < 120) return `${seconds} s`
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`
  return seconds < 172_800 ? `${Math.round(seconds / 3_600)} h` : `${Math.round(seconds / 86_400)} days`
}

const FINDING_COLUMNS: Column<Finding>[] = [
  { title: 'WHAT', of: (row) => row.kind },
  { title: 'WHERE', of: (row) => row.subject },
  { title: 'FOUND', of: (row) => row.message },
]
