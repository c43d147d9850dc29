// key: the API keys of a partner: issued, listed, replaced and ended.

import { Command, Option } from 'commander'
import { type ApiKey, isUsable, type KeyTime, keyLabel, revoke, rotate } from '../../core/key.ts'
import { type Environment, tenantJson, tenantName } from '../../core/partner.ts'
import { formatInstant, formatInstantOrNull, type Instant } from '../../core/time.ts'
import { issueKey } from '../../keys.ts'
import { auditEntry, partnerNamed, tenantNamed } from '../command.ts'
import type { Cli } from '../context.ts'
import { duration, envOption } from '../options.ts'
import { type Column, confirmOnTerminal, note, print, printFields, printPages } from '../terminal.ts'

const OVERLAP_DEFAULT = '24h'

export function keyCommand(cli: Cli): Command {
  const key = new Command('key').description('API keys; a key is shown once, when it is issued')

  key
    .command('create')
    .description('issue a key; prints it on stdout and never again')
    .argument('<slug>', 'the partner')
    .addOption(envOption().makeOptionMandatory())
    .option('--label <text>', 'what it is for')
    .option('--expires-in <time>', 'how long it lives, such as 90d', duration)
    .action((slug: string, options: { env: Environment; label?: string; expiresIn?: number }) =>
      cli.withStore(async (store) => {
        const tenant = await tenantNamed(store, slug, options.env)
        const label = keyLabel(options.label)
        const issued = issueKey({ tenant, label, lifetimeMs: options.expiresIn ?? null }, cli.machine)
        const detail = { partner_slug: slug, environment: options.env, label }
        const audit = auditEntry(cli, 'key.create', issued.record.keyId, detail)
        showOnce(cli, await store.addKey(issued.record, audit), issued.secret)
      }),
    )

  key
    .command('list')
    .description('the keys of a partner, without their secrets; LAST USED is up to an hour behind')
    .argument('<slug>', 'the partner')
    .action((slug: string) =>
      cli.withStore(async (store) => {
        await partnerNamed(store, slug)
        const { now } = await store.readClock()
        const json = (row: ApiKey) => keyJson(row, now)
        await printPages(cli, [await store.listKeys(slug)], { json, columns: COLUMNS, none: 'No keys.' })
      }),
    )

  key
    .command('rotate')
    .description(
      'issue a successor and set when the old key expires; prints the new key on stdout and never again',
    )
    .argument('<key-id>')
    .addOption(
      new Option('--overlap <time>', 'how long both work')
        .argParser(duration)
        .default(duration(OVERLAP_DEFAULT), OVERLAP_DEFAULT),
    )
    .action((keyId: string, { overlap }: { overlap: number }) =>
      cli.withStore(async (store) => {
        let secret = ''
        const decide = (current: ApiKey, time: KeyTime) => {
          const { key, successor } = rotate(current, overlap, time)
          const issued = issueKey(successor, cli.machine)
          secret = issued.secret
          return { key, successor: issued.record }
        }
        const audit = auditEntry(cli, 'key.rotate', keyId, { overlap_ms: overlap })
        const { key, successor } = await store.changeKey(keyId, decide, audit)
        if (!successor) throw new Error('a rotation issues a key')
        showOnce(cli, successor, secret)
        if (key.expiresAt !== null) note(cli, `${keyId} works until ${formatInstant(key.expiresAt)}.`)
      }),
    )

  key
    .command('revoke')
    .description('end a key at once')
    .argument('<key-id>')
    .action(async (keyId: string) => {
      await confirmOnTerminal(cli, `Revoke ${keyId}? Calls with it are refused from now on.`)
      await cli.withStore(async (store) => {
        const decide = (current: ApiKey, time: KeyTime) => ({ key: revoke(current, time), successor: null })
        const { key } = await store.changeKey(keyId, decide, auditEntry(cli, 'key.revoke', keyId))
        printFields(cli, keyJson(key, (await store.readClock()).now))
      })
    })

  return key
}

function showOnce(cli: Cli, key: ApiKey, secret: string): void {
  const json = {
    key_id: key.keyId,
    key: secret,
    ...tenantJson(key.tenant),
    label: key.label,
    created_at: formatInstant(key.createdAt),
    expires_at: formatInstantOrNull(key.expiresAt),
  }
  note(cli, `${key.keyId} (${tenantName(key.tenant)}). Keep the key: it is not shown again.`)
  cli.streams.shownOnce?.({
    what: `the key ${key.keyId}`,
    remedy: `run \`${cli.self()} key revoke ${key.keyId}\`, and create another.`,
  })
  print(cli, json, () => secret)
}

const keyJson = (key: ApiKey, now: Instant) => ({
  key_id: key.keyId,
  ...tenantJson(key.tenant),
  label: key.label,
  prefix: key.prefix,
  last_four: key.lastFour,
  usable: isUsable(key, now),
  created_at: formatInstant(key.createdAt),
  expires_at: formatInstantOrNull(key.expiresAt),
  revoked_at: formatInstantOrNull(key.revokedAt),
  last_used_at: formatInstantOrNull(key.lastUsedAt),
})

const COLUMNS: Column<ReturnType<typeof keyJson>>[] = [
  { title: 'KEY ID', of: (row) => row.key_id },
  { title: 'KEY', of: (row) => `${row.prefix}...${row.last_four}` },
  { title: 'LABEL', of: (row) => row.label },
  { title: 'WORKS', of: (row) => row.usable },
  { title: 'CREATED', of: (row) => row.created_at },
  { title: 'EXPIRES', of: (row) => row.expires_at },
  { title: 'REVOKED', of: (row) => row.revoked_at },
  { title: 'LAST USED', of: (row) => row.last_used_at },
]
