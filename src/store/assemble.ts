// Assembles a store from its parts: those shared by both databases, and those that each implements itself.

import type { ExecutionId } from '../core/execution.ts'
import { createFreezeStore } from './frozen.ts'
import { faultsOf, type OwnFaults, warningsOf } from './health/check.ts'
import { createOpsPageStore, createStatusStore, marksReader, type OpsSql } from './health/ops-page.ts'
import { monitoringReader, type OwnVitals } from './health/vitals.ts'
import type { CheckStore, MonitoringStore, OpsPageStore } from './monitoring.ts'
import {
  createKeyStore,
  createPartnerStore,
  createTierStore,
  createWebhookStore,
  type Following,
} from './shared/accounts.ts'
import { createAuditStore, createResultStore } from './shared/audit.ts'
import { createConfirmationStore } from './shared/confirmations.ts'
import { createLevers, createListings, createTradeStore, type OwnListings } from './shared/executions.ts'
import { createInvoiceStore } from './shared/invoices.ts'
import { createMonthStore } from './shared/months.ts'
import { createClockStore, createPassStore, createWakeUpStore, type OwnPasses } from './shared/passes.ts'
import { createPlanStore, createWindowStore } from './shared/plans.ts'
import { createPollStore, pollNotesOf } from './shared/polls.ts'
import { createPriceStore, type OwnImports } from './shared/prices.ts'
import { createPurchaseStore } from './shared/purchases.ts'
import { createSandboxStore, type OwnSandboxes } from './shared/sandboxes.ts'
import { createUserStore, type OwnErasing } from './shared/users.ts'
import type { Store } from './store.ts'
import type { Base } from './transaction.ts'
import { waitAtClose } from './writes.ts'

export type OwnMonitoring = Pick<MonitoringStore, 'probeWrite' | 'walBytes' | 'readStandbyAway'> & {
  /** The newest execution, once none can appear below it any more: see marksReader. */
  settledExecution: () => Promise<ExecutionId | null | undefined>
  vitals: OwnVitals
  faults: OwnFaults
  opsSql: OpsSql
}

/** The parts that each store implements itself. */
type Own = {
  following: Following
  /** Whether a single key is found without waiting, if the caller asks for that. */
  keysAtOnce: boolean
  erasing: OwnErasing
  /** Whether confirmations of a key share a transaction. */
  confirmsInGroups: boolean
  listings: OwnListings
  passes: OwnPasses
  imports: OwnImports
  sandboxes: OwnSandboxes
  monitoring: OwnMonitoring
  /** Called once the marks of polls are written. */
  close: () => void | Promise<void>
}

export function assemble(base: Base, specific: Own): Store {
  const polls = pollNotesOf(base)
  return {
    ...createPartnerStore(base, specific.following),
    ...createKeyStore(base, specific),
    ...createTierStore(base),
    ...createInvoiceStore(base),
    ...createUserStore(base, specific.erasing),
    ...createPlanStore(base),
    ...createPollStore(base, polls),
    ...createConfirmationStore(base, specific.confirmsInGroups),
    ...createListings(base, specific.listings),
    ...createWindowStore(base),
    ...createLevers(base),
    ...createTradeStore(base),
    ...createPurchaseStore(base),
    ...createWebhookStore(base),
    ...createPassStore(base, specific.passes),
    ...createWakeUpStore(base),
    ...createClockStore(base),
    ...createPriceStore(base, specific.imports),
    ...createMonthStore(base),
    ...createSandboxStore(base, specific.sandboxes),
    ...createAuditStore(base),
    ...createResultStore(base),
    ...createStatusStore(base),
    ...createFreezeStore(base),
    ...monitor(base, specific.monitoring),
    async close() {
      const marks = polls.flush()
      if (marks) await waitAtClose(marks)
      await specific.close()
    },
  }
}

export const monitor = (
  base: Base,
  { settledExecution, vitals, faults, opsSql, ...own }: OwnMonitoring,
): MonitoringStore & CheckStore & OpsPageStore => ({
  ...marksReader(base, settledExecution),
  ...monitoringReader(base, vitals),
  ...createOpsPageStore(base, opsSql),
  findFaults: faultsOf(base, faults),
  findWarnings: warningsOf(base, vitals),
  ...own,
})
