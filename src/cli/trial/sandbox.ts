// sandbox: the time and the data of a partner's test environment. No command here takes a live environment.

import { Command } from 'commander'
import { price } from '../../core/money.ts'
import { EXECUTIONS_MAX } from '../../core/sandbox.ts'
import { counted } from '../../core/text.ts'
import { spellSpan } from '../../core/time.ts'
import type { Advanced } from '../../engine/sandbox.ts'
import type { Store } from '../../store/store.ts'
import type { Woken } from '../../webhook/wake-partners.ts'
import { auditEntry, commandLine, findingJson, tenantNamed } from '../command.ts'
import type { Cli } from '../context.ts'
import { EXIT } from '../exit-codes.ts'
import {
  addWebhookOptions,
  duration,
  lazyWebhooks,
  partnersId,
  positivePrice,
  type WebhookOptions,
} from '../options.ts'
import { wake } from '../service/tick.ts'
import {
  confirmForGood,
  createProgress,
  Interrupted,
  note,
  print,
  printFields,
  renderFields,
  stopGently,
  YES,
} from '../terminal.ts'

type RunOptions = WebhookOptions & { price?: string }

const PRICE = [
  '--price <usd>',
  'the price while the time passes, by default the newest one stored',
  positivePrice,
] as const

export function sandboxCommand(cli: Cli): Command {
  const sandbox = new Command('sandbox').description("the time and the data of a partner's test environment")

  addWebhookOptions(sandbox.command('advance'))
    .description('advance the clock of the test environment, firing what falls due on the way')
    .argument('<slug>', 'the partner')
    .argument('<time>', 'how far, such as 12h, 7d or 30d', duration)
    .option(...PRICE)
    .action((slug: string, byMs: number, options: RunOptions) =>
      cli.withStore((store) => advance(cli, store, { slug, byMs, options })),
    )

  addWebhookOptions(sandbox.command('fire'))
    .description('fire the next tranche of a plan of the test environment now')
    .argument('<slug>', 'the partner')
    .argument('<partner-plan-id>', '', partnersId)
    .option(...PRICE)
    .action((slug: string, planId: string, options: RunOptions) =>
      cli.withStore((store) => fire(cli, store, { slug, planId, options })),
    )

  sandbox
    .command('reset')
    .description('wipe the test environment: users, plans, executions and trades; keys and webhook stay')
    .argument('<slug>', 'the partner')
    .option(...YES)
    .action((slug: string, { yes = false }: { yes?: boolean }) => reset(cli, slug, yes))

  return sandbox
}

async function advance(
  cli: Cli,
  store: Store,
  { slug, byMs, options }: { slug: string; byMs: number; options: RunOptions },
): Promise<void> {
  const { advanceSandbox } = await import('../../engine/sandbox.ts')
  const { advancedJson } = await import('../service/sandbox-desk.ts')
  const tenant = await tenantNamed(store, slug, 'test')
  const webhooks = await lazyWebhooks(options)
  const progress = createProgress(cli.streams, (share) => spellSpan(Math.floor(share * byMs)))
  const stop = stopGently(() => process.exit(EXIT.interrupted))
  const announce = ({ wakeUpId: passId, executionsCreated }: Made): Promise<Woken> => {
    progress.clear()
    return wake(cli, { store, webhooks }, { passId, executionsCreated })
  }
  let advanced: Advanced
  let woken: Woken
  try {
    advanced = await advanceSandbox({
      store,
      machine: cli.machine,
      tenant,
      byMs,
      price: options.price === undefined ? null : price(options.price),
      audit: auditEntry(cli, 'sandbox.advance', slug, { by_ms: byMs, price_usd: options.price ?? null }),
      onProgress(share) {
        if (stop.signal.aborted) throw new Interrupted(WHERE_IT_STANDS)
        progress.show(share)
      },
      onEnd: announce,
    })
    woken = await announce(advanced)
    if (stop.signal.aborted) cli.exitWith(EXIT.interrupted)
  } finally {
    progress.clear()
    stop.release()
  }
  if (advanced.after.offsetMs - advanced.before.offsetMs < byMs)
    note(cli, `It stopped on the way: this environment holds ${EXECUTIONS_MAX} executions, the maximum.`)
  // Refused reports wait for an operator, however far the clock goes: `check --env test` has them.
  const findings = (await store.findWarnings('test')).filter(
    (found) => found.tenant?.tenantId === tenant.tenantId && found.kind !== 'late_fills',
  )
  const { done: _, ...result } = advancedJson(tenant, advanced, woken)
  const { offset_ms, ...fields } = result
  const json = { ...result, findings: findings.map((finding) => findingJson(cli, finding, 'warning')) }
  print(cli, json, () => renderFields({ ...fields, ahead: spellSpan(offset_ms) }))
  if (findings.length > 0) {
    const look = commandLine(cli.self(), ['tranche', 'check', '--env', 'test'])
    const verb = findings.length === 1 ? 'has' : 'have'
    note(cli, `warning: ${counted(findings.length, 'fill')} of this sandbox ${verb} odd figures; run ${look}`)
  }
}

type Made = Pick<Advanced, 'wakeUpId' | 'executionsCreated'>

const WHERE_IT_STANDS =
  'Interrupted; the clock keeps the time that it reached: `tranche status` shows it, and another advance continues from there.'

async function fire(
  cli: Cli,
  store: Store,
  { slug, planId, options }: { slug: string; planId: string; options: RunOptions },
): Promise<void> {
  const { fireInSandbox } = await import('../../engine/sandbox.ts')
  const { firedJson } = await import('../service/sandbox-desk.ts')
  const tenant = await tenantNamed(store, slug, 'test')
  const webhooks = await lazyWebhooks(options)
  const { fired, wakeUpId } = await fireInSandbox(planId, {
    store,
    machine: cli.machine,
    tenant,
    price: options.price === undefined ? null : price(options.price),
    audit: auditEntry(cli, 'sandbox.fire', slug, {
      partner_plan_id: planId,
      price_usd: options.price ?? null,
    }),
  })
  const woken = await wake(cli, { store, webhooks }, { passId: wakeUpId, executionsCreated: 1 })
  printFields(cli, firedJson(tenant, planId, fired, woken))
}

async function reset(cli: Cli, slug: string, yes: boolean): Promise<void> {
  await confirmForGood(cli, {
    yes,
    what: 'A reset wipes the test environment',
    question: `Wipe the test environment of ${slug}? Its users, plans and trades are gone, from its reports too.`,
  })
  await cli.withStore(async (store) => {
    const tenant = await tenantNamed(store, slug, 'test')
    const wiped = await store.resetSandbox(tenant, auditEntry(cli, 'sandbox.reset', slug))
    const { wipedJson } = await import('../service/sandbox-desk.ts')
    printFields(cli, wipedJson(tenant, wiped))
    note(
      cli,
      'It keeps its keys, its webhook and its clock. Its billing reports are now empty. Nothing live has changed.',
    )
  })
}
