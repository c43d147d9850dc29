// What every store must do, whatever keeps it. A new backend runs this with one line.

import { suite, test } from 'node:test'
import { atomicityContract } from './contract/atomicity.ts'
import { executionContract } from './contract/executions.ts'
import { partnerContract } from './contract/partners.ts'
import { passContract } from './contract/passes.ts'
import { sandboxContract } from './contract/sandboxes.ts'
import { tenancyContract } from './contract/tenancy.ts'
import type { Contract, Open } from './world.ts'

const PARTS: Record<string, Contract> = {
  'partners, keys, tiers and the audit log': partnerContract,
  'tenancy of every method': tenancyContract,
  'executions, leases and trades': executionContract,
  'scheduler passes': passContract,
  sandboxes: sandboxContract,
  atomicity: atomicityContract,
}

export function storeContract(name: string, open: Open): void {
  for (const [part, contract] of Object.entries(PARTS)) {
    suite(`${name}: ${part}`, () => {
      for (const [promise, prove] of Object.entries(contract)) test(promise, (t) => prove(t, open))
    })
  }
}
