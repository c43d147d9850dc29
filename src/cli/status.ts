// status and migrate: how an operator sees whether all is well.

import { Command, Option } from 'commander'
import { DAY_MS, formatInstant, type Instant, plus } from '../core/instant.ts'
import { formatUsd } from '../core/money.ts'
import type { Status } from '../store/status.ts'
import type { Store } from '../store/store.ts'
import { type Cli, print, renderFields } from './context.ts'
import { duration } from './options/values.ts'
import { sandboxesJson, sandboxLines } from './status/sandboxes.ts'

/** How far back status looks for windows that ended with money unspent. */
const UNSPENT_DAYS = 7

export function statusCommand(cli: Cli): Command {
  return new Command('status')
    .description('how the scheduler and the plans are doing')
    .option('--watch', 'a live screen; without a terminal, one status after the other')
    .addOption(new Option('--every <duration>', 'between two looks').argParser(duration).default(2_000, '2s'))
    .action(async ({ watch: isWatched, every }: { watch?: boolean; every: number }) => {
      if (!isWatched) {
        const json = await cli.withStore((store) => readJson(cli, store))
        return print(cli, json, () => inWords(json))
      }
      const [{ watch }, { drawScreen, PASSES_SHOWN, EXECUTIONS_SHOWN }] = await Promise.all([
        import('./status/watch.ts'),
        import('./status/screen.ts'),
      ])
      const shown = { passes: PASSES_SHOWN, executions: EXECUTIONS_SHOWN }
      // Opened anew for every look: a screen left running keeps nobody from restoring or upgrading.
      await watch(cli, {
        everyMs: every,
        look: () =>
          cli.withStore(async (store) => {
            const at = cli.machine.clock()
            const [status, sandboxes] = await readAll(store, at)
            const recent = await store.readRecent(shown)
            return { at, db: cli.globals().db, everyMs: every, status, sandboxes, recent }
          }),
        line: ({ at, status, sandboxes }) => {
          const json = statusJson(status, at, sandboxes)
          return cli.globals().json ? JSON.stringify(json) : `at  ${json.at}\n${inWords(json)}\n`
        },
        draw: drawScreen,
      })
    })
}

async function readJson(cli: Cli, store: Store): Promise<StatusJson> {
  const now = cli.machine.clock()
  const [status, sandboxes] = await readAll(store, now)
  return statusJson(status, now, sandboxes)
}

const readAll = async (store: Store, now: Instant): Promise<[Status, Sandboxes]> => [
  await store.readStatus(now, plus(now, -UNSPENT_DAYS * DAY_MS)),
  sandboxesJson(await store.listSandboxes()),
]

type Sandboxes = ReturnType<typeof sandboxesJson>

export function migrateCommand(cli: Cli): Command {
  return new Command('migrate')
    .description('bring the database to the schema of this version')
    .option('--status', 'only show which migrations are applied')
    .action(async ({ status }: { status?: boolean }) => {
      const { readMigrationStates } = await import('../store/sqlite/open.ts')
      const { describeMigration } = await import('../store/sqlite/file/migrate.ts')
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

const statusJson = (status: Status, now: Instant, sandboxes: Sandboxes) => ({
  at: formatInstant(now),
  last_tick_at: status.lastPass && formatInstant(status.lastPass.at),
  last_tick_age_seconds: seconds(status.lastPass?.at ?? null, now),
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
  late_fills_undecided: status.lateFillsUndecided,
  sandboxes,
})

type StatusJson = ReturnType<typeof statusJson>

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
        : json.oldest_due_age_seconds === null
          ? `${json.due_backlog}, all in sandboxes`
          : `${json.due_backlog}, the oldest for ${age(json.oldest_due_age_seconds)}`,
    'paused webhooks':
      json.paused_webhooks.map((paused) => `${paused.partner_slug} ${paused.environment}`).join(', ') ||
      'none',
    'ended unspent': `${unspent.count} windows in ${UNSPENT_DAYS} days, ${unspent.released_usd} USD`,
    // Money may have moved, and nobody has decided on it yet.
    ...(json.late_fills_undecided > 0 && {
      'late fills': `${json.late_fills_undecided} to decide on: tranche execution late-fills`,
    }),
    ...(sandboxes.length > 0 && { sandboxes: sandboxLines(sandboxes).join(', ') }),
  })
}

/** A time span as people say it. */
export function age(seconds: number | null): string {
  if (seconds === null) return '-'
  if (seconds < 120) return `${seconds} s`
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`
  return seconds < 172_800 ? `${Math.round(seconds / 3_600)} h` : `${Math.round(seconds / 86_400)} days`
}
