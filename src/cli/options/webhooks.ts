// The flags of everything that sends webhooks: what it may reach, whom it trusts, and the names of its headers.

import { type Command, InvalidArgumentError, Option } from 'commander'
import { Problem } from '../../core/problem.ts'
import type { Guard } from '../../webhook/address-guard.ts'
import type { Deliver } from '../../webhook/deliver.ts'

export type WebhookOptions = { webhookAllowCidr: string[]; webhookCa?: string; webhookHeaderPrefix: string }

const HEADER_PREFIX_DEFAULT = 'X-Service'

export function addWebhookOptions(command: Command): Command {
  return command
    .addOption(
      new Option('--webhook-allow-cidr <range>', 'let webhooks reach this range (repeatable)')
        .env('TRANCHE_WEBHOOK_ALLOW_CIDR')
        .argParser(cidrs)
        .default([], 'none'),
    )
    .addOption(caOption())
    .addOption(headerPrefixOption())
}

export const caOption = () =>
  new Option('--webhook-ca <file>', 'also trust this certificate authority (PEM)').env('TRANCHE_WEBHOOK_CA')

export const headerPrefixOption = () =>
  new Option('--webhook-header-prefix <prefix>', 'how the headers of webhooks begin')
    .env('TRANCHE_WEBHOOK_HEADER_PREFIX')
    .argParser(headerPrefix)
    .default(HEADER_PREFIX_DEFAULT)

/** One value may hold several ranges, separated by commas, for the environment variable's sake. */
function cidrs(text: string, others: string[]): string[] {
  const ranges = text.split(',').map((range) => range.trim())
  if (ranges.every((range) => /^[0-9A-Fa-f:.]+\/\d{1,3}$/.test(range))) return [...others, ...ranges]
  throw new InvalidArgumentError('Give a range such as 10.0.0.0/8.')
}

function headerPrefix(text: string): string {
  if (/^[A-Za-z][A-Za-z0-9-]{0,48}[A-Za-z0-9]$/.test(text)) return text
  throw new InvalidArgumentError('Give letters, digits and hyphens, such as X-Service.')
}

export type Webhooks = { guard: Guard; deliver: Deliver }

/**
 * The webhook sender, loaded at its first use: a pass that announces nothing does without it. Flags that could be wrong
 * are read at once, so that a mistake stops the command before it has done anything.
 */
export async function lazyWebhooks(options: WebhookOptions): Promise<() => Promise<Webhooks>> {
  const flagged = options.webhookAllowCidr.length > 0 || options.webhookCa !== undefined
  let loaded = flagged ? await webhooksOf(options) : null
  return async () => {
    loaded ??= await webhooksOf(options)
    return loaded
  }
}

export async function webhooksOf(
  options: WebhookOptions,
  { namesAddresses = false }: { namesAddresses?: boolean } = {},
): Promise<Webhooks> {
  const { createGuard, parseCidr } = await import('../../webhook/address-guard.ts')
  const { createDeliver } = await import('../../webhook/deliver.ts')
  try {
    const guard = createGuard({ allow: options.webhookAllowCidr.map(parseCidr), namesAddresses })
    const { webhookHeaderPrefix: headerPrefix, webhookCa } = options
    return { guard, deliver: createDeliver({ guard, headerPrefix, caFile: webhookCa ?? null }) }
  } catch (error) {
    if (error instanceof Problem) throw error
    throw new Problem('usage', `--webhook options: ${(error as Error).message}`)
  }
}
