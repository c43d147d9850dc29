// trade: what partners confirmed, set right by hand.

import { Command } from 'commander'
import { type Amounts, adjust, type Correction } from '../core/adjustment.ts'
import type { OddPrice } from '../core/mispriced-fill.ts'
import { btc, formatBtc, formatPrice, formatUsd, usd } from '../core/money.ts'
import type { Cli } from './context.ts'
import { correctionJson } from './execution/json.ts'
import { amount, reasonOption } from './options/values.ts'
import { auditEntry } from './shared/audit-entry.ts'
import { confirmOnTerminal } from './terminal/ask.ts'
import { print, warn } from './terminal/print.ts'
import { renderFields } from './terminal/table.ts'

type AdjustOptions = { usd: string; btc: string; reason: string }

export function tradeCommand(cli: Cli): Command {
  const trade = new Command('trade').description('what partners confirmed')

  trade
    .command('adjust')
    .description('correct what an execution comes to, with an entry of its own in the present month')
    .argument('<execution-id>')
    .requiredOption('--usd <usd>', 'what was really spent', amount)
    .requiredOption('--btc <btc>', 'what was really bought', amount)
    .addOption(reasonOption('why, for finance and the partner: the export shows it'))
    .action(async (executionId: string, options: AdjustOptions) => {
      const { reason } = options
      const right = { usd: usd(options.usd), btc: btc(options.btc), reason }
      await confirmOnTerminal(
        cli,
        `Set ${executionId} to ${formatUsd(right.usd)} USD for ${formatBtc(right.btc)} BTC? It is billed.`,
      )
      await cli.withStore(async (store) => {
        const made = await store.adjustTrade(
          executionId,
          (seen, now) => adjust(seen, right, now),
          (done) => auditEntry(cli, 'trade.adjust', executionId, auditDetail(done)),
        )
        if (made.odd !== null) warn(cli, doubtful(made.after, made.odd))
        const json = correctionJson(made)
        print(cli, json, () => renderFields(json))
      })
    })

  return trade
}

/** It is recorded anyway: the price may be the wrong figure. */
const doubtful = (after: Amounts, { price, fault }: OddPrice): string =>
  `${formatUsd(after.usd)} USD for ${formatBtc(after.btc)} BTC ${DOUBTS[fault]} ${formatPrice(price)}: look again, and adjust it again if a figure is wrong. \`tranche check\` reports it as trade_price.`

const DOUBTS = {
  contradicted: 'does not fit the price it was confirmed at,',
  far_off: 'is as far from the price of the market as what was confirmed, at',
}

/** Without what the audit entry says by itself. */
function auditDetail(made: Correction): Record<string, unknown> {
  const { execution_id: _, recorded_at: __, ...detail } = correctionJson(made)
  return detail
}
