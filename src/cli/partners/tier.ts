// tier: the pricing tiers and their versions.

import { Command } from 'commander'
import { besideVersion, RATE_BPS_MAX, setTier, type Tier, type TierTerms } from '../../core/fees.ts'
import { formatUsd, usd, ZERO_USD } from '../../core/money.ts'
import { presentMonth } from '../billing/months.ts'
import { auditEntry } from '../command.ts'
import type { Cli } from '../context.ts'
import { dollars, month, wholeNumber } from '../options.ts'
import { type Column, note, printFields, printPages } from '../terminal.ts'

export function tierCommand(cli: Cli): Command {
  const tier = new Command('tier').description('pricing tiers, each version in force from its month on')

  tier
    .command('list')
    .description('every version of every tier, oldest first')
    .action(() =>
      cli.withStore(async (store) =>
        printPages(cli, [await store.listTiers()], { json: tierJson, columns: COLUMNS, none: 'No tiers.' }),
      ),
    )

  tier
    .command('set')
    .description('add a tier, or a new version of one from a month on; what is left out stays as it was')
    .argument('<name>')
    .option(
      '--rate-bps <number>',
      'charged on volume, in hundredths of a percent; a new tier needs it',
      wholeNumber(0, RATE_BPS_MAX),
    )
    .option(
      '--min-volume-usd <usd>',
      'the monthly volume from which it applies; none, as for a new tier: by override only',
      (text: string) => (text === NO_VOLUME ? text : dollars(text)),
    )
    .option('--per-active-user-usd <usd>', 'charged for each active user', dollars)
    .option('--monthly-minimum-usd <usd>', 'the least that a month costs', dollars)
    .option('--from <month>', 'the first month it holds for (YYYY-MM), by default the present one', month)
    .action((name: string, options: SetOptions) =>
      cli.withStore(async (store) => {
        const given = (text: string | undefined) => (text === undefined ? undefined : usd(text))
        const terms: TierTerms = {
          name,
          rateBps: options.rateBps,
          fromMonth: options.from ?? null,
          minVolume: options.minVolumeUsd === NO_VOLUME ? null : given(options.minVolumeUsd),
          perActiveUser: given(options.perActiveUserUsd),
          monthlyMinimum: given(options.monthlyMinimumUsd),
        }
        const version = await store.putTier(
          (versions, now) => setTier(versions, terms, now),
          (tier) => auditEntry(cli, 'tier.set', name, tierJson(tier)),
        )
        const { before, next } = besideVersion(await store.listTiers(), version)
        printFields(cli, { ...tierJson(version), until_month: next?.fromMonth ?? null })
        note(cli, inForceWords(version, { before, next, thisMonth: await presentMonth(store) }))
      }),
    )

  return tier
}

/** The word for no volume. */
const NO_VOLUME = 'none'

/** From when until when a version is in force, and what is in force before it. */
function inForceWords(
  { name, fromMonth }: Tier,
  { before, next, thisMonth }: { before: Tier | null; next: Tier | null; thisMonth: string },
): string {
  const end = next === null ? 'on' : `until its version of ${next.fromMonth} begins`
  const until = before ? `its version of ${before.fromMonth} holds` : 'there is no such tier'
  return `${name} is charged like this from ${fromMonth} ${end}${fromMonth > thisMonth ? `; until then ${until}` : ''}.`
}

type SetOptions = {
  rateBps?: number
  minVolumeUsd?: string
  perActiveUserUsd?: string
  monthlyMinimumUsd?: string
  from?: string
}

const tierJson = (tier: Tier) => ({
  name: tier.name,
  from_month: tier.fromMonth,
  // Scripts read an amount here, so it is never null.
  min_volume_usd: formatUsd(tier.minVolume ?? ZERO_USD),
  rate_bps: tier.rateBps,
  per_active_user_usd: formatUsd(tier.perActiveUser),
  monthly_minimum_usd: formatUsd(tier.monthlyMinimum),
  overrides_only: tier.minVolume === null,
})

const COLUMNS: Column<ReturnType<typeof tierJson>>[] = [
  { title: 'TIER', of: (row) => row.name },
  { title: 'FROM', of: (row) => row.from_month },
  { title: 'MIN VOLUME', of: (row) => (row.overrides_only ? null : row.min_volume_usd), right: true },
  { title: 'RATE BPS', of: (row) => row.rate_bps, right: true },
  { title: 'PER USER', of: (row) => row.per_active_user_usd, right: true },
  { title: 'MINIMUM', of: (row) => row.monthly_minimum_usd, right: true },
]
