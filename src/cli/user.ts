import { Command } from 'commander'
import type { Environment } from '../core/partner.ts'
import { userJson } from '../http/resource.ts'
import type { UserRow } from '../store/store.ts'
import { type Cli, type Column, printList } from './cli.ts'
import { tenantOf } from './key.ts'
import { environmentOption, slug } from './options.ts'

export function userCommand(cli: Cli): Command {
  const user = new Command('user').description('the users partners have linked')

  user
    .command('list')
    .description('the users of a partner in one environment')
    .argument('<slug>', 'the partner', slug)
    .addOption(environmentOption().makeOptionMandatory())
    .action((partnerSlug: string, { env }: { env: Environment }) =>
      cli.withStore(async (store) => {
        const tenant = await tenantOf(store, partnerSlug, env)
        await printList(cli, {
          read: (page) => store.listUsers(tenant, page),
          cursor: (row) => row.cursor,
          json,
          columns: COLUMNS,
        })
      }),
    )

  return user
}

const json = (row: UserRow) => ({
  partner_slug: row.tenant.partnerSlug,
  environment: row.tenant.environment,
  ...userJson(row),
})

const COLUMNS: Column<ReturnType<typeof json>>[] = [
  { title: 'USER', of: (row) => row.partner_user_id },
  { title: 'STATUS', of: (row) => row.status },
  { title: 'E-MAIL', of: (row) => row.email },
  { title: 'CONSENT', of: (row) => row.consent_version },
  { title: 'LINKED', of: (row) => row.created_at },
]
