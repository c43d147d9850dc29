// status: how an operator sees whether all is well, once or on a screen that stays.

import { Command, Option } from 'commander'
import { type Finding, finding } from '../../core/findings.ts'
import type { Environment } from '../../core/partner.ts'
import { usage } from '../../core/problem.ts'
import { createStockTaker, type TakeStock } from '../../http/ops/readiness.ts'
import type { Store } from '../../store/store.ts'
import type { Cli } from '../context.ts'
import { serviceBooted } from '../installed.ts'
import { envOption, interval } from '../options.ts'
import { print } from '../terminal.ts'
import { ask, isUp } from './health.ts'
import { type Health, statusInWords, statusJson, testStatusInWords, testStatusJson } from './status-text.ts'

export function statusCommand(cli: Cli): Command {
  return new Command('status')
    .description('how the scheduler and the plans are doing')
    .option('--watch', 'a live screen; without a terminal, one status after the other')
    .addOption(
      new Option('--every <duration>', 'the time between two updates')
        .argParser(interval)
        .default(2_000, '2s'),
    )
    .addOption(envOption().default('live'))
    .action(({ watch, every, env }: { watch?: boolean; every: number; env: Environment }) => {
      if (watch && env === 'test') throw usage('--watch shows the live environments only.')
      if (env === 'test') return lookAtTest(cli)
      return watch ? lookOnAndOn(cli, every) : lookOnce(cli)
    })
}

/** Status reports a move itself, as a finding. */
const SAYS_MOVED = { saysMoved: true }

async function lookOnce(cli: Cli): Promise<void> {
  const json = statusJson(
    cli,
    await cli.withStore((store) => look(cli, store, createStockTaker()), SAYS_MOVED),
  )
  const words = cli.globals().json ? '' : await statusInWords(json)
  print(cli, json, () => words)
}

async function lookAtTest(cli: Cli): Promise<void> {
  const json = await cli.withStore(
    async (store) =>
      testStatusJson(cli, await look(cli, store, createStockTaker()), await store.findWarnings('test')),
    SAYS_MOVED,
  )
  print(cli, json, () => testStatusInWords(json))
}

async function lookOnAndOn(cli: Cli, everyMs: number): Promise<void> {
  const { drawScreen, EXECUTIONS_SHOWN, PASSES_SHOWN, watch } = await import('./status-screen.ts')
  const shown = { passes: PASSES_SHOWN, executions: EXECUTIONS_SHOWN }
  const takeStock = createStockTaker()
  // Opened anew for every look: a screen left running keeps nobody from restoring or upgrading.
  await watch(cli, {
    everyMs,
    look: () =>
      cli.withStore(async (store) => {
        const health = await look(cli, store, takeStock)
        const { shown: db } = await cli.database()
        const more = { recent: await store.readRecent(shown), walBytes: await store.walBytes() }
        return { ...health, ...more, db, self: cli.self(), everyMs }
      }, SAYS_MOVED),
    line: async (health) => {
      const json = statusJson(cli, health)
      return cli.globals().json ? JSON.stringify(json) : `at  ${json.at}\n${await statusInWords(json)}\n`
    },
    draw: drawScreen,
  })
}

async function look(cli: Cli, store: Store, takeStock: TakeStock): Promise<Health> {
  // As passes are dated: on a server that is another host's clock, and this one's may be wrong.
  const { now: at } = await store.readClock()
  const stock = await takeStock(store, at)
  const vitals = await store.readVitals(at, stock)
  return {
    at,
    stock,
    vitals: { ...vitals, also: [...(await serveStopped(cli)), ...vitals.also] },
    backlog: await store.readBacklog(at),
    sandboxes: await store.listSandboxes(),
  }
}

/** A stopped service cannot report it. Where systemd should run one, we call it. */
async function serveStopped(cli: Cli): Promise<Finding[]> {
  const url = serviceBooted(cli.globals().db)
  if (url === null) return []
  // Its settings may be what is wrong.
  const address = URL.parse('/healthz', url)
  const { ok, text } = address ? await ask(address, isUp) : { ok: false, text: 'no address' }
  if (ok) return []
  const message = `does not answer at ${url} (${text}), so no partner gets through; \`journalctl --unit tranche\` says why`
  const next = ['systemctl', 'restart', 'tranche.service']
  return [finding({ kind: 'serve_stopped', subject: 'tranche.service', message, next })]
}
