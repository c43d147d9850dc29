// webhook listen: the wake-ups of a partner, produced where its developer works. It reads from the service, signs as
// the service would, and forwards to an address that the service itself could not reach.

import { setTimeout as pause } from 'node:timers/promises'
import type { Environment } from '../../core/partner.ts'
import { Problem } from '../../core/problem.ts'
import { visible } from '../../core/visible-text.ts'
import { SECRET_BYTES, secretOf } from '../../core/webhook.ts'
import { UNGUARDED } from '../../webhook/address-guard.ts'
import { createDeliver, type Send } from '../../webhook/deliver.ts'
import type { Cli } from '../context.ts'
import { readKeyFile } from '../options/service.ts'
import { EXIT } from '../shared/exit-codes.ts'
import { readSecret } from '../shared/read-input.ts'
import { note, print, warn } from '../terminal/print.ts'
import { stopGently } from '../terminal/signals.ts'
import { renderFields } from '../terminal/table.ts'
import { follow, type Listed } from './follow.ts'
import { createReader } from './service-reader.ts'

export type ListenOptions = {
  url: string
  keyFile: string
  forwardTo: string
  secretFile?: string
  every: number
  webhookCa?: string
  webhookHeaderPrefix: string
}

type Me = { partner_slug: string; environment: Environment }

export async function listen(cli: Cli, options: ListenOptions): Promise<void> {
  const given = givenSecret(options)
  const secret = given ?? secretOf(cli.machine.random(SECRET_BYTES))
  const send = sender(options)
  const key = readKeyFile(options.keyFile)
  const stop = stopGently(() => process.exit(EXIT.interrupted))
  const tally = { forwarded: 0, failed: 0 }
  try {
    const { signal } = stop
    const reader = createReader({
      ...{ url: options.url, key, signal },
      chance: () => (cli.machine.random(1)[0] ?? 0) / 256,
      onTrouble: (text) => warn(cli, text),
      onRecovery: () => note(cli, 'The service answers again.'),
    })
    // Without retries: the person who has just typed the address and the key is still watching.
    const me = (await reader.once('/me')) as Me
    const follower = await follow(reader.once)
    tellBegin(cli, me, { forward_to: options.forwardTo, secret: given === null ? secret : null })
    for (;;) {
      await pause(options.every, undefined, { signal })
      const fresh = await reader.patiently(follower.fresh)
      if (fresh.length === 0) continue
      const outcome = await attempt(send, me, { url: options.forwardTo, secret }, fresh)
      tally[outcome.delivered ? 'forwarded' : 'failed'] += 1
      print(cli, outcome, () => visible(inWords(outcome)))
    }
  } catch (error) {
    if (!stop.signal.aborted) throw error
  } finally {
    stop.release()
  }
  note(cli, `Wake-ups: ${tally.forwarded} forwarded, ${tally.failed} failed.`)
  cli.exitWith(EXIT.interrupted)
}

/** The only time that a generated secret is shown. */
function tellBegin(cli: Cli, me: Me, what: { forward_to: string; secret: string | null }): void {
  const begun = { partner_slug: me.partner_slug, environment: me.environment, ...what }
  print(cli, begun, () => renderFields({ ...begun, secret: what.secret ?? 'the one given' }))
  note(cli, 'Waiting for executions; Ctrl-C ends it.')
}

/** One wake-up for all that a look has found, and no second attempt: a receiver must live with lost ones. */
async function attempt(
  send: Send,
  { partner_slug, environment }: Me,
  webhook: { url: string; secret: string },
  fresh: Listed[],
) {
  const [first] = fresh
  if (!first) throw new Error('there is nothing to announce')
  const { execution_id: earliest, created_at } = first
  const started = performance.now()
  const tenant = { partnerSlug: partner_slug, environment }
  const { statusCode, reason } = await send({ tenant, count: fresh.length, earliest, webhook })
  return {
    created_at,
    count: fresh.length,
    earliest_execution_id: earliest,
    delivered: reason === null,
    status_code: statusCode,
    reason,
    duration_ms: Math.round(performance.now() - started),
  }
}

const inWords = (outcome: Awaited<ReturnType<typeof attempt>>): string => {
  const { created_at, earliest_execution_id, count, status_code, reason, duration_ms } = outcome
  const end = reason === null ? `answered ${status_code} in ${duration_ms} ms` : `NOT delivered: ${reason}`
  return `${created_at} ${earliest_execution_id} count ${count} ${end}`
}

/** The same code as the service's own deliveries; only the guard against private addresses is not asked. */
function sender({ webhookHeaderPrefix: headerPrefix, webhookCa }: ListenOptions): Send {
  try {
    return createDeliver({ guard: UNGUARDED, headerPrefix, caFile: webhookCa ?? null })
  } catch (error) {
    throw new Problem('usage', `--webhook-ca: ${(error as Error).message}`)
  }
}

/** The secret that the developer keeps; null when none is given. */
function givenSecret({ secretFile }: ListenOptions): string | null {
  const given = secretFile === undefined ? process.env.TRANCHE_WEBHOOK_SECRET : readSecret(secretFile)
  if (secretFile !== undefined && !given) throw new Problem('bad_file', `${secretFile} holds no secret.`)
  return given || null
}
