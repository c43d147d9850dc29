// user: the users that partners have linked.

import { Command } from 'commander'
import { formatInstant } from '../core/instant.ts'
import type { Environment } from '../core/partner.ts'
import { userJson } from '../http/resource-json.ts'
import type { ListedUser } from '../store/users.ts'
import { auditEntry } from './audit-entry.ts'
import type { Cli } from './context.ts'
import { tenantNamed } from './find.ts'
import { environmentOption, slug } from './options/values.ts'
import { confirmOnTerminal } from './terminal/confirm.ts'
import { note, print, printList, warn } from './terminal/print.ts'
import { type Column, renderFields } from './terminal/table.ts'

export function userCommand(cli: Cli): Command {
  const user = new Command('user').description('the users partners have linked')

  user
    .command('list')
    .description('the users of a partner in one environment')
    .argument('<slug>', 'the partner', slug)
    .addOption(environmentOption().makeOptionMandatory())
    .action((partnerSlug: string, { env }: { env: Environment }) =>
      cli.withStore(async (store) => {
        const tenant = await tenantNamed(store, partnerSlug, env)
        await printList(cli, {
          read: (page) => store.listUsers(tenant, page),
          cursor: (row) => row.cursor,
          json,
          columns: COLUMNS,
        })
      }),
    )

  user
    .command('erase')
    .description('remove the e-mail and provider of a user; the ids, consents and the ledger stay')
    .argument('<slug>', 'the partner', slug)
    .argument('<partner-user-id>')
    .addOption(environmentOption().makeOptionMandatory())
    .action(async (partnerSlug: string, partnerUserId: string, { env }: { env: Environment }) => {
      await confirmOnTerminal(
        cli,
        `Erase the e-mail and provider of ${partnerUserId}? They cannot be brought back.`,
      )
      await cli.withStore(async (store) => {
        const tenant = await tenantNamed(store, partnerSlug, env)
        const detail = { partner_slug: partnerSlug, environment: env, fields: ['email', 'auth_provider'] }
        const audit = auditEntry(cli, 'user.erase', partnerUserId, detail)
        const { user: erased, erasedAt, gone } = await store.eraseUser(tenant, partnerUserId, audit)
        const shown = { ...json({ ...erased, tenant, erasedAt }), gone_from_file: gone }
        print(cli, shown, () => renderFields(shown))
        if (!gone)
          warn(
            cli,
            'the text of the e-mail is still in the file: in another row, or in the log a reader holds.',
          )
        note(cli, 'Backups and replicas made before keep what was erased until they expire.')
      })
    })

  return user
}

const json = (row: ListedUser) => ({
  partner_slug: row.tenant.partnerSlug,
  environment: row.tenant.environment,
  ...userJson(row),
  erased_at: row.erasedAt === null ? null : formatInstant(row.erasedAt),
})

const COLUMNS: Column<ReturnType<typeof json>>[] = [
  { title: 'USER', of: (row) => row.partner_user_id },
  { title: 'STATUS', of: (row) => row.status },
  { title: 'E-MAIL', of: (row) => row.email },
  { title: 'CONSENT', of: (row) => row.consent_version },
  { title: 'LINKED', of: (row) => row.created_at },
]
