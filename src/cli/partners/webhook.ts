// webhook: the wake-ups of a partner, shown, tried out and verified.

import { buffer } from 'node:stream/consumers'
import { Command, Option } from 'commander'
import type { Environment, Tenant } from '../../core/partner.ts'
import { Problem, usage } from '../../core/problem.ts'
import type { Instant } from '../../core/time.ts'
import { resume, testOf, type Webhook } from '../../core/webhook.ts'
import { deliveryJson, webhookJson } from '../../http/answer-json.ts'
import type { DeliveryJson } from '../../http/answer-schemas.ts'
import { auditEntry, tenantNamed } from '../command.ts'
import type { Cli } from '../context.ts'
import { EXIT } from '../exit-codes.ts'
import { givenSecret } from '../input-file.ts'
import {
  addWebhookOptions,
  caOption,
  envOption,
  headerPrefixOption,
  httpUrl,
  interval,
  serviceOption,
  slug,
  type WebhookOptions,
  waitsInWords,
  webhooksOf,
} from '../options.ts'
import { type Column, print, printFields, renderFields, tableBelow } from '../terminal.ts'
import type { ListenOptions } from './webhook-listen.ts'

export function webhookCommand(cli: Cli): Command {
  const webhook = new Command('webhook').description('the wake-ups sent to partners')

  webhook
    .command('show')
    .description('the webhook of a partner environment and its last deliveries; never its secret')
    .argument('<slug>', 'the partner', slug)
    .addOption(envOption().makeOptionMandatory())
    .action((partnerSlug: string, { env }: { env: Environment }) =>
      cli.withStore(async (store) => {
        const tenant = await tenantNamed(store, partnerSlug, env)
        const webhook = webhookJson(tenant, await store.findWebhook(tenant))
        const deliveries = (await store.listDeliveries(tenant)).map(deliveryJson)
        const table = await tableBelow(DELIVERY_COLUMNS, deliveries.slice(0, DELIVERIES_SHOWN))
        print(cli, { ...webhook, deliveries }, () => `${renderFields(webhook)}${table}`)
      }),
    )

  addWebhookOptions(webhook.command('test'))
    .description('send a signed wake-up that announces nothing; changes no counter')
    .argument('<slug>', 'the partner', slug)
    .addOption(envOption().makeOptionMandatory())
    .action((partnerSlug: string, options: { env: Environment } & WebhookOptions) =>
      test(cli, partnerSlug, options),
    )

  webhook
    .command('resume')
    .description('lift a pause and keep the secret; `webhook test` shows first whether the receiver answers')
    .argument('<slug>', 'the partner', slug)
    .addOption(envOption().makeOptionMandatory())
    .action((partnerSlug: string, { env }: { env: Environment }) =>
      cli.withStore(async (store) => {
        const tenant = await tenantNamed(store, partnerSlug, env)
        const audit = auditEntry(cli, 'webhook.resume', `${partnerSlug} ${env}`)
        const decide = (current: Webhook | null, now: Instant) => resume(existing(tenant, current), now)
        printFields(cli, webhookJson(tenant, await store.changeWebhook(tenant, decide, audit)))
      }),
    )

  webhook
    .command('verify')
    .description(
      'check a signature against the payload on stdin, and say what may be wrong; exits 3 when it does not match',
    )
    .requiredOption('--signature <value>', 'the header value as received')
    .option('--secret-file <file>', 'the file that holds the secret')
    .addHelpText('after', '\nThe secret comes from --secret-file or the variable TRANCHE_WEBHOOK_SECRET.')
    .action((options: { signature: string; secretFile?: string }) => verify(cli, options))

  webhook
    .command('listen')
    .description('forward wake-ups to a receiver that the service cannot reach, such as one on a laptop')
    .requiredOption('--forward-to <url>', 'the receiver', RECEIVER)
    .requiredOption('--key-file <file>', 'a file with an API key of the partner')
    .addOption(serviceOption())
    .option('--secret-file <file>', 'sign with the secret in this file')
    .addOption(new Option('--every <time>', 'how often to look').argParser(interval).default(2_000, '2s'))
    .addOption(caOption())
    .addOption(headerPrefixOption())
    .addHelpText('after', LISTEN_HELP)
    .action(async (options: ListenOptions) => {
      const { listen } = await import('./webhook-listen.ts')
      await listen(cli, options)
    })

  return webhook
}

const RECEIVER = httpUrl('the address of the receiver, such as http://localhost:9000')

/** The number shown to a person; --json has the whole record. */
const DELIVERIES_SHOWN = 10
const DELIVERY_COLUMNS: Column<DeliveryJson>[] = [
  { title: 'ended_at', of: (row) => row.ended_at },
  { title: 'test', of: (row) => row.test },
  { title: 'count', of: (row) => row.count, right: true },
  { title: 'origin', of: (row) => row.origin },
  { title: 'delivered', of: (row) => row.delivered },
  { title: 'status_code', of: (row) => row.status_code, right: true },
  { title: 'duration_ms', of: (row) => row.duration_ms, right: true },
  { title: 'failure_reason', of: (row) => row.failure_reason },
]

function existing({ partnerSlug, environment }: Tenant, webhook: Webhook | null): Webhook {
  if (webhook) return webhook
  throw new Problem('webhook_not_found', `${partnerSlug} has no webhook in ${environment}.`)
}

const LISTEN_HELP = `
It reads the list of executions with the partner's key, and never polls: every
instruction stays for the partner's own poller, and no lease begins. The webhook
on record is neither used nor changed.

Whatever is new at each look is announced by one wake-up, signed as the service
signs. Like a real one it is sent once: if the receiver is down, the line says
so.
A service that cannot be reached is asked again after ${waitsInWords()}
seconds; a key that is revoked ends the command.

The secret comes from --secret-file or the variable TRANCHE_WEBHOOK_SECRET.
Without either, a new one is made, and printed once.`

async function test(
  cli: Cli,
  partnerSlug: string,
  options: { env: Environment } & WebhookOptions,
): Promise<void> {
  await cli.withStore(async (store) => {
    const tenant = await tenantNamed(store, partnerSlug, options.env)
    const webhook = existing(tenant, await store.findWebhook(tenant))
    const { send } = await webhooksOf(options, true)
    // Not recorded: the reason may name an internal address, and partners read the record.
    const attempt = await send({ ...testOf(tenant), webhook })
    const json = {
      delivered: attempt.reason === null,
      url: webhook.url,
      status_code: attempt.statusCode,
      reason: attempt.reason,
      duration_ms: attempt.durationMs,
    }
    printFields(cli, json)
    if (!json.delivered) cli.exitWith(EXIT.failed)
  })
}

async function verify(
  cli: Cli,
  { signature, secretFile }: { signature: string; secretFile?: string },
): Promise<void> {
  const { diagnose, isSignature } = await import('../../webhook/signature.ts')
  const secret = givenSecret(secretFile)
  if (secret === null) throw usage('Give the secret with --secret-file or TRANCHE_WEBHOOK_SECRET.')
  const body = await buffer(cli.streams.in)
  const valid = isSignature(signature, secret, body)
  const reason = valid ? null : (diagnose(signature, secret, body) ?? OTHER)
  print(cli, { valid, reason }, () => (valid ? 'valid' : `not valid: ${reason}`))
  if (!valid) cli.exitWith(EXIT.found)
}

const OTHER =
  'another secret (it changes with every registration) or another body (verify the raw bytes, before any parsing)'
