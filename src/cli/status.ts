// status: how an operator sees whether all is well, once or on a screen that stays.

import { Command, Option } from 'commander'
import { DAY_MS, type Instant, plus } from '../core/instant.ts'
import type { Status } from '../store/status.ts'
import type { Store } from '../store/store.ts'
import type { Cli } from './context.ts'
import { interval } from './options/values.ts'
import { type SandboxJson, sandboxJson } from './status/sandboxes.ts'
import { statusInWords, statusJson, UNSPENT_DAYS } from './status/words.ts'
import { print } from './terminal/print.ts'

export function statusCommand(cli: Cli): Command {
  return new Command('status')
    .description('how the scheduler and the plans are doing')
    .option('--watch', 'a live screen; without a terminal, one status after the other')
    .addOption(new Option('--every <duration>', 'between two looks').argParser(interval).default(2_000, '2s'))
    .action(({ watch, every }: { watch?: boolean; every: number }) =>
      watch ? lookOnAndOn(cli, every) : lookOnce(cli),
    )
}

async function lookOnce(cli: Cli): Promise<void> {
  const { at, status, sandboxes } = await cli.withStore((store) => look(cli, store))
  const json = statusJson(status, at, sandboxes)
  print(cli, json, () => statusInWords(json))
}

async function lookOnAndOn(cli: Cli, everyMs: number): Promise<void> {
  const [{ watch }, { drawScreen, PASSES_SHOWN, EXECUTIONS_SHOWN }] = await Promise.all([
    import('./status/watch.ts'),
    import('./status/screen.ts'),
  ])
  const shown = { passes: PASSES_SHOWN, executions: EXECUTIONS_SHOWN }
  // Opened anew for every look: a screen left running keeps nobody from restoring or upgrading.
  await watch(cli, {
    everyMs,
    look: () =>
      cli.withStore(async (store) => {
        const seen = await look(cli, store)
        return { ...seen, db: cli.globals().db, everyMs, recent: await store.readRecent(shown) }
      }),
    line: ({ at, status, sandboxes }) => {
      const json = statusJson(status, at, sandboxes)
      return cli.globals().json ? JSON.stringify(json) : `at  ${json.at}\n${statusInWords(json)}\n`
    },
    draw: drawScreen,
  })
}

async function look(
  cli: Cli,
  store: Store,
): Promise<{ at: Instant; status: Status; sandboxes: SandboxJson[] }> {
  const at = cli.machine.clock()
  const status = await store.readStatus(at, plus(at, -UNSPENT_DAYS * DAY_MS))
  return { at, status, sandboxes: (await store.listSandboxes()).map(sandboxJson) }
}
