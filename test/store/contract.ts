// The contract of every store, whatever its database. A new backend runs this with one line.

import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { atomicityContract, uniquenessContract } from './contract/atomicity.ts'
import { damagedRowContract } from './contract/damaged-rows.ts'
import {
  adjustmentContract,
  deliveryContract,
  executionContract,
  lateFillContract,
} from './contract/executions.ts'
import { frozenContract } from './contract/frozen.ts'
import { listingContract, priceContract } from './contract/listings.ts'
import { monitoringContract, resultsContract, vitalsContract } from './contract/monitoring.ts'
import { earlierMonthContract, invoiceContract, monthContract } from './contract/months.ts'
import { auditContract, partnerContract } from './contract/partners.ts'
import { passContract, planPageContract, processContract } from './contract/passes.ts'
import { purchaseContract } from './contract/purchases.ts'
import { clockContract, connectionContract, executionRaceContract, raceContract } from './contract/races.ts'
import { sandboxContract, sandboxKeyContract } from './contract/sandboxes.ts'
import { tenancyContract } from './contract/tenancy.ts'
import { userContract } from './contract/users.ts'
import { wakeUpContract } from './contract/wake-ups.ts'
import { type Backend, type Contract, openWorld } from './world.ts'

const PARTS: Record<string, Contract> = {
  'partners, keys and tiers': partnerContract,
  'the audit log': auditContract,
  'tenancy of every method': tenancyContract,
  'users, consents and disables': userContract,
  'executions, leases and trades': executionContract,
  'what a poll is handed': deliveryContract,
  'late fills and adjustments': lateFillContract,
  'purchases that were not known': purchaseContract,
  'billing months': monthContract,
  'months before a closed one': earlierMonthContract,
  'the adjustments of a month': adjustmentContract,
  'invoices and credit notes': invoiceContract,
  'scheduler passes': passContract,
  'pages of a pass': planPageContract,
  'several processes at passes': processContract,
  'wake-ups': wakeUpContract,
  prices: priceContract,
  'a disputed clock': clockContract,
  'results of jobs': resultsContract,
  sandboxes: sandboxContract,
  'the keys of a sandbox': sandboxKeyContract,
  atomicity: atomicityContract,
  'what there is once': uniquenessContract,
  'several connections': connectionContract,
  'two hosts at once': raceContract,
  'executions and trades at the same moment': executionRaceContract,
  'listings in pages': listingContract,
  'monitoring and the check': monitoringContract,
  'what is known at a glance': vitalsContract,
  'rows that are damaged': damagedRowContract,
  'a frozen database': frozenContract,
}

/** Parts in which rows are damaged, or written as no service would. After every other test, the ledger is sound. */
const UNSOUND = [
  'what there is once',
  'monitoring and the check',
  'rows that are damaged',
  'invoices and credit notes',
]

/** `backend` is a module that exports `open` (world.ts); it is loaded into threads as well. */
export function storeContract(name: string, backend: URL): void {
  const open: Backend['open'] = async (place, clock) =>
    ((await import(backend.href)) as Backend).open(place, clock)
  for (const [part, contract] of Object.entries(PARTS)) {
    suite(`${name}: ${part}`, () =>
      contract((promise, prove) =>
        test(promise, async (t) => {
          const world = await openWorld(t, open)
          await prove(world, { t, backend })
          if (!UNSOUND.includes(part)) assert.deepEqual(await world.store.findFaults(), [])
        }),
      ))
  }
}
