// partner: the partners of an installation, and their settings.

import { Command } from 'commander'
import { NO_TIER } from '../../core/fees.ts'
import { formatUsd, usd } from '../../core/money.ts'
import { monthBefore } from '../../core/month.ts'
import {
  endMinimum,
  MIN_TRANCHE_LEAST,
  type Partner,
  type PartnerChange,
  refusePartnerName,
  setHeld,
  setMinTranche,
  setPartnerStatus,
} from '../../core/partner.ts'
import { formatInstant, type Instant } from '../../core/time.ts'
import type { AuditEntry, Store } from '../../store/store.ts'
import { presentMonth } from '../billing/months.ts'
import { auditEntry, partnerNamed } from '../command.ts'
import type { Cli } from '../context.ts'
import { dollars, month, slug } from '../options.ts'
import {
  askOptional,
  type Column,
  confirmOnTerminal,
  mayAsk,
  note,
  print,
  printPages,
  renderFields,
} from '../terminal.ts'

export function partnerCommand(cli: Cli): Command {
  const partner = new Command('partner').description('the partners this installation serves')

  partner
    .command('create')
    .description('add a partner, with a test and a live environment')
    .argument('<slug>', 'its permanent short name', slug)
    .requiredOption('--name <text>', 'its name as shown')
    .action(async (partnerSlug: string, { name }: { name: string }) => {
      // Checked before withStore, which makes the database.
      refusePartnerName(name)
      const create = async (store: Store) => {
        const audit = auditEntry(cli, 'partner.create', partnerSlug, { name })
        await showPartner(cli, store, await store.addPartner({ partnerSlug, name }, audit))
      }
      await cli.withStore(create, { create: true })
    })

  partner
    .command('list')
    .description('all partners')
    .action(() =>
      cli.withStore(async (store) => {
        const thisMonth = await presentMonth(store)
        const rows = (await store.listPartners()).map(async (row) =>
          partnerJson(row, await termsOf(store, row.partnerSlug, thisMonth)),
        )
        const shape = { json: (row: PartnerJson) => row, columns: COLUMNS, none: 'No partners.' }
        await printPages(cli, [await Promise.all(rows)], shape)
      }),
    )

  partner
    .command('show')
    .description('one partner')
    .argument('<slug>')
    .action((partnerSlug: string) =>
      cli.withStore(async (store) => showPartner(cli, store, await partnerNamed(store, partnerSlug))),
    )

  partner
    .command('disable')
    .description('refuse its keys and stop its tranches; nothing is cancelled')
    .argument('<slug>')
    .option(
      '--last-minimum <month>',
      'the last month with a monthly minimum (YYYY-MM), or none for no end',
      lastMonth,
    )
    .action((partnerSlug: string, { lastMinimum }: { lastMinimum?: string }) =>
      disable(cli, partnerSlug, lastMinimum),
    )

  partner
    .command('enable')
    .description('accept its keys again and resume its plans; its monthly minimum is due again')
    .argument('<slug>')
    .action((partnerSlug: string) =>
      change(cli, partnerSlug, {
        verb: 'enable',
        decide: (current, now) => setPartnerStatus(current, 'active', now),
      }),
    )

  for (const [verb, held] of [
    ['hold', true],
    ['release', false],
  ] as const) {
    partner
      .command(verb)
      .description(
        held
          ? 'fire no new tranches for it; polls, confirmations and billing continue'
          : 'resume the plans of a held partner',
      )
      .argument('<slug>')
      .action(async (partnerSlug: string) => {
        if (held)
          await confirmOnTerminal(
            cli,
            `Hold ${partnerSlug}? Its plans buy nothing more until it is released.`,
          )
        await change(cli, partnerSlug, { verb, decide: (current, now) => setHeld(current, held, now) })
      })
  }

  addSettings(cli, partner)
  return partner
}

function addSettings(cli: Cli, partner: Command): void {
  partner
    .command('set-tier')
    .description('charge a tier whatever the volume, or "none" to go by volume again')
    .argument('<slug>')
    .argument('<tier>', 'the name of a tier, or none')
    .option('--from <month>', 'the first month it holds for (YYYY-MM), by default the present one', month)
    .action((partnerSlug: string, tier: string, { from }: { from?: string }) =>
      cli.withStore(async (store) => {
        const override = { partnerSlug, fromMonth: from ?? null, tierName: tier === NO_TIER ? null : tier }
        const audit = auditEntry(cli, 'partner.set-tier', partnerSlug, { tier, from: from ?? null })
        const begins = await store.putTierOverride(override, audit)
        await showPartner(cli, store, await partnerNamed(store, partnerSlug))
        note(cli, await chargedWords(store, { partnerSlug, tierName: override.tierName, begins }))
      }),
    )

  partner
    .command('set-min-tranche')
    .description("set the smallest order the partner's venue takes")
    .argument('<slug>')
    .argument('<usd>', `at least ${formatUsd(MIN_TRANCHE_LEAST)}`, dollars)
    .action((partnerSlug: string, amount: string) => {
      const minTranche = usd(amount)
      return change(cli, partnerSlug, {
        verb: 'set-min-tranche',
        detail: { min_tranche_usd: formatUsd(minTranche) },
        decide: (current, now) => setMinTranche(current, minTranche, now),
      })
    })
}

/** The partner's tier, from when until when, and while that month is still ahead the previous one, if it differs. */
async function chargedWords(
  store: Store,
  { partnerSlug, tierName, begins }: { partnerSlug: string; tierName: string | null; begins: string },
): Promise<string> {
  const by = (tier: string | null): string => tier ?? 'its volume'
  const [next] = await store.listTierOverridesAfter(partnerSlug, begins)
  const end = next ? `until ${next.fromMonth}, and then by ${by(next.tierName)}` : 'on'
  const head = `${partnerSlug} is charged by ${by(tierName)} from ${begins} ${end}`
  if (begins <= (await presentMonth(store))) return `${head}.`
  const before = await store.findTierOverride(partnerSlug, monthBefore(begins))
  return before === tierName ? `${head}.` : `${head}; before ${begins} by ${by(before)}.`
}

/** Means no end where a month is expected. */
const NO_END = 'none'
const lastMonth = (text: string): string => (text === NO_END ? text : month(text))

async function disable(cli: Cli, partnerSlug: string, given: string | undefined): Promise<void> {
  await confirmOnTerminal(cli, `Disable ${partnerSlug}? Its calls are refused and its plans stop firing.`)
  const question = `Which is the last month, YYYY-MM, in which ${partnerSlug} owes its monthly minimum? [no change]`
  const said = given ?? (mayAsk(cli) ? await askOptional(cli, question, lastMonth) : undefined)
  const lastMinimum = said === NO_END ? null : said
  await change(cli, partnerSlug, {
    verb: 'disable',
    ...(said !== undefined && { detail: { last_minimum: said } }),
    remark: minimumWords,
    decide(current, now) {
      const disabled = setPartnerStatus(current, 'disabled', now)
      return lastMinimum === undefined ? disabled : endMinimum(disabled, lastMinimum, now)
    },
  })
}

/** Billing does not end with the calls, which would otherwise be a surprise. */
async function minimumWords(store: Store, { partnerSlug, status }: Partner): Promise<string | null> {
  if (status === 'active') return null
  const last = await store.findLastMinimum(partnerSlug, await presentMonth(store))
  return last === null
    ? `${partnerSlug} still owes the monthly minimum of its tier; --last-minimum YYYY-MM ends that.`
    : `${partnerSlug} owes the monthly minimum of its tier until ${last}, that month included.`
}

type Change = {
  verb: string
  detail?: AuditEntry['detail']
  decide: (current: Partner, now: Instant) => PartnerChange
  remark?: (store: Store, changed: Partner) => Promise<string | null>
}

const change = (cli: Cli, partnerSlug: string, { verb, detail, decide, remark }: Change): Promise<void> =>
  cli.withStore(async (store) => {
    const audit = auditEntry(cli, `partner.${verb}`, partnerSlug, detail)
    const changed = await store.changePartner(partnerSlug, decide, audit)
    await showPartner(cli, store, changed)
    const said = await remark?.(store, changed)
    if (said) note(cli, said)
  })

async function showPartner(cli: Cli, store: Store, partner: Partner): Promise<void> {
  const { partnerSlug } = partner
  const month = await presentMonth(store)
  const shown = partnerJson(partner, await termsOf(store, partnerSlug, month))
  const pending = await store.listTierOverridesAfter(partnerSlug, month)
  const json = {
    ...shown,
    pending_overrides: pending.map(({ fromMonth, tierName }) => ({ from_month: fromMonth, tier: tierName })),
  }
  const inWords = pending.map(({ fromMonth, tierName }) => `${tierName ?? NO_TIER} from ${fromMonth}`)
  print(cli, json, () => renderFields({ ...shown, pending_overrides: inWords.join(', ') || null }))
}

type Terms = { tier: string | null; lastMinimum: string | null }

const termsOf = async (store: Store, slug: string, month: string): Promise<Terms> => ({
  tier: await store.findTierOverride(slug, month),
  lastMinimum: await store.findLastMinimum(slug, month),
})

const partnerJson = (partner: Partner, { tier, lastMinimum }: Terms) => ({
  partner_slug: partner.partnerSlug,
  partner_name: partner.name,
  status: partner.status,
  pricing_tier_override: tier,
  min_tranche_usd: formatUsd(partner.minTranche),
  created_at: formatInstant(partner.createdAt),
  held: partner.held,
  last_minimum: lastMinimum,
})

type PartnerJson = ReturnType<typeof partnerJson>

const COLUMNS: Column<PartnerJson>[] = [
  { title: 'SLUG', of: (row) => row.partner_slug },
  { title: 'NAME', of: (row) => row.partner_name },
  { title: 'STATUS', of: (row) => row.status },
  { title: 'HELD', of: (row) => row.held },
  { title: 'TIER', of: (row) => row.pricing_tier_override },
  { title: 'MIN TRANCHE', of: (row) => row.min_tranche_usd, right: true },
  { title: 'LAST MINIMUM', of: (row) => row.last_minimum },
  { title: 'CREATED', of: (row) => row.created_at },
]
