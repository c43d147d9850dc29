// freeze and resume: an operator's stop of all firing and delivery, and the end of any freeze.

import { Command } from 'commander'
import { frozenInWords, frozenJson, frozenProblem } from '../../core/frozen.ts'
import { counted, visible } from '../../core/text.ts'
import type { Store } from '../../store/store.ts'
import { auditEntry } from '../command.ts'
import type { Cli } from '../context.ts'
import { reasonOption } from '../options.ts'
import { confirmForGood, print, YES } from '../terminal.ts'

export function freezeCommand(cli: Cli): Command {
  return new Command('freeze')
    .description('fire and deliver nothing until `resume`; confirmations are still accepted')
    .addOption(reasonOption('why; partners read it too'))
    .action(({ reason }: { reason: string }) => cli.withStore((store) => freeze(cli, store, reason)))
}

async function freeze(cli: Cli, store: Store, reason: string): Promise<void> {
  const { shown } = await cli.database()
  // A moved database takes no write, and is frozen already.
  const stored = await store.readFrozen()
  const audit = auditEntry(cli, 'database.freeze', shown, { kind: 'operator', reason })
  const { frozen, isNew } = stored
    ? { frozen: stored, isNew: false }
    : await store.freeze({ by: cli.machine.osUser(), reason }, audit)
  print(cli, { file: shown, frozen: frozenJson(frozen), was_frozen: !isNew }, () =>
    visible(
      isNew
        ? `${shown} is frozen: nothing fires and nothing is delivered until \`tranche resume\``
        : `${shown} is ${frozenInWords(frozen)}; nothing was changed`,
    ),
  )
}

export function resumeCommand(cli: Cli): Command {
  return new Command('resume')
    .description('let a frozen database fire and deliver again')
    .option(...YES)
    .action(({ yes = false }: { yes?: boolean }) => cli.withStore((store) => resume(cli, store, yes)))
}

async function resume(cli: Cli, store: Store, yes: boolean): Promise<void> {
  const { shown } = await cli.database()
  const frozen = await store.readFrozen()
  if (!frozen) {
    print(cli, { file: shown, was: null }, () => visible(`${shown} is not frozen; nothing was changed`))
    return
  }
  if (frozen.kind === 'moved') throw frozenProblem(frozen)
  const { plans, orders } = await whatWaits(store)
  const due = `${counted(plans, 'plan')} will be due at the next tick, and ${counted(orders, 'instruction')} will be delivered at the next polls`
  await confirmForGood(cli, {
    yes,
    what: 'Resumed plans buy again',
    question: `Resume ${shown}? It is ${frozenInWords(frozen)}. ${due}.`,
  })
  await store.resume(auditEntry(cli, 'database.resume', shown))
  const json = { file: shown, was: frozenJson(frozen), plans_due: plans, executions_due: orders }
  print(cli, json, () => visible(`${shown} is no longer frozen; ${due}`))
}

async function whatWaits(store: Store): Promise<{ plans: number; orders: number }> {
  const { countDuePlans } = await import('../../engine/pass.ts')
  const plans = await countDuePlans(store)
  const { now } = await store.readClock()
  const { live, test } = await store.readBacklog(now)
  return { plans, orders: live.due + test.due }
}
