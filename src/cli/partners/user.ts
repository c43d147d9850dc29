// user: the users that partners have linked.

import { Command } from 'commander'
import { type Environment, tenantJson } from '../../core/partner.ts'
import { notFound } from '../../core/problem.ts'
import { formatInstant, formatInstantOrNull } from '../../core/time.ts'
import { planJson, userJson } from '../../http/answer-json.ts'
import type { Consent, ListedUser, Remains, UserRecord } from '../../store/store.ts'
import { PERSONAL } from '../../store/tables.ts'
import { auditEntry, tenantNamed } from '../command.ts'
import type { Cli } from '../context.ts'
import { envOption, partnersId, slug } from '../options.ts'
import {
  type Column,
  confirmForGood,
  note,
  print,
  printFields,
  printList,
  renderFields,
  tableBelow,
  warn,
  YES,
} from '../terminal.ts'

export function userCommand(cli: Cli): Command {
  const user = new Command('user').description('the users partners have linked')

  user
    .command('list')
    .description('the users of a partner in one environment')
    .argument('<slug>', 'the partner', slug)
    .addOption(envOption().makeOptionMandatory())
    .action((partnerSlug: string, { env }: { env: Environment }) =>
      cli.withStore(async (store) => {
        const tenant = await tenantNamed(store, partnerSlug, env)
        await printList(cli, {
          read: (page) => store.listUsers(tenant, page),
          cursor: (row) => row.cursor,
          json,
          columns: COLUMNS,
          none: 'No users.',
        })
      }),
    )

  user
    .command('show')
    .description('one user: every consent that was given, and the plans')
    .argument('<slug>', 'the partner', slug)
    .argument('<partner-user-id>', '', partnersId)
    .addOption(envOption().makeOptionMandatory())
    .action((partnerSlug: string, partnerUserId: string, { env }: { env: Environment }) =>
      cli.withStore(async (store) => {
        const tenant = await tenantNamed(store, partnerSlug, env)
        const found = await store.findUser(tenant, partnerUserId)
        if (!found) throw notFound('user', partnerUserId)
        await show(cli, found)
      }),
    )

  user
    .command('erase')
    .description('remove the e-mail and provider of a user; the ids, consents and the ledger stay')
    .argument('<slug>', 'the partner', slug)
    .argument('<partner-user-id>', '', partnersId)
    .addOption(envOption().makeOptionMandatory())
    .option(...YES)
    .action(async (partnerSlug: string, partnerUserId: string, { env, yes = false }: EraseOptions) => {
      await confirmForGood(cli, {
        yes,
        what: 'What is erased cannot be brought back',
        question: `Erase the e-mail and provider of ${partnerUserId}? They cannot be brought back.`,
      })
      await cli.withStore(async (store) => {
        const tenant = await tenantNamed(store, partnerSlug, env)
        const detail = { ...tenantJson(tenant), fields: PERSONAL.flatMap(({ columns }) => columns) }
        const audit = auditEntry(cli, 'user.erase', partnerUserId, detail)
        const { user: erased, erasedAt, remains } = await store.eraseUser(tenant, partnerUserId, audit)
        printFields(cli, { ...json({ ...erased, tenant, erasedAt }), gone_from_file: remains === 'nowhere' })
        if (remains !== 'nowhere') warn(cli, STILL_THERE[remains])
        note(
          cli,
          'Backups and replicas made before keep what was erased until they expire; a restore erases it again.',
        )
      })
    })

  return user
}

type EraseOptions = { env: Environment; yes?: boolean }

const STILL_THERE: Record<Exclude<Remains, 'nowhere'>, string> = {
  other_row: 'the text of the e-mail is still there: another row has the same text.',
  log: 'the text of the e-mail is still in the log, which somebody is reading: run this again.',
  server:
    'no query finds the e-mail any more, but the disk of the server keeps its text until the space is used again.',
}

async function show(cli: Cli, found: UserRecord): Promise<void> {
  const user = json(found)
  const consents = found.consents.map(consentJson)
  const plans = found.plans.map(planJson)
  const tables = (await tableBelow(CONSENT_COLUMNS, consents)) + (await tableBelow(PLAN_COLUMNS, plans))
  print(cli, { ...user, consents, plans }, () => renderFields(user) + tables)
}

const consentJson = (consent: Consent) => ({
  consent_version: consent.version,
  consent_timestamp: formatInstant(consent.timestamp),
  received_at: formatInstant(consent.receivedAt),
})

const CONSENT_COLUMNS: Column<ReturnType<typeof consentJson>>[] = [
  { title: 'CONSENT', of: (row) => row.consent_version },
  { title: 'GIVEN', of: (row) => row.consent_timestamp },
  { title: 'RECEIVED', of: (row) => row.received_at },
]

const PLAN_COLUMNS: Column<ReturnType<typeof planJson>>[] = [
  { title: 'PLAN', of: (row) => row.partner_plan_id },
  { title: 'STATUS', of: (row) => row.status },
  { title: 'USD', of: (row) => row.amount_usd, right: true },
  { title: 'EVERY', of: (row) => row.frequency },
  { title: 'STARTS', of: (row) => row.start_date },
  { title: 'CREATED', of: (row) => row.created_at },
]

const json = (row: ListedUser) => ({
  ...tenantJson(row.tenant),
  ...userJson(row),
  erased_at: formatInstantOrNull(row.erasedAt),
})

const COLUMNS: Column<ReturnType<typeof json>>[] = [
  { title: 'USER', of: (row) => row.partner_user_id },
  { title: 'STATUS', of: (row) => row.status },
  { title: 'E-MAIL', of: (row) => row.email },
  { title: 'CONSENT', of: (row) => row.consent_version },
  { title: 'LINKED', of: (row) => row.created_at },
]
