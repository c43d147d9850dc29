// What the rest of the program may ask of the disk, noun by noun. One method is one transaction; a write takes a pure
// decision, runs it on what it has just read, and stores what it returns. `now` is read inside the transaction, so
// neither a wait for a lock nor another process can make it stale.

import type { AuditStore } from './audit.ts'
import type { WindowStore } from './bring-back-windows.ts'
import type { CheckStore } from './check.ts'
import type { ClockStore } from './clock-disputes.ts'
import type { ExecutionStore } from './executions.ts'
import type { KeyStore } from './keys.ts'
import type { LostWriteStore } from './lost-writes.ts'
import type { MonitoringStore } from './monitoring.ts'
import type { MonthStore } from './months.ts'
import type { OpsPageStore } from './ops-page.ts'
import type { PartnerStore } from './partners.ts'
import type { PassStore } from './passes.ts'
import type { PlanStore } from './plans.ts'
import type { PriceStore } from './prices.ts'
import type { SandboxStore } from './sandboxes.ts'
import type { StatusStore } from './status.ts'
import type { TierStore } from './tiers.ts'
import type { TradeStore } from './trades.ts'
import type { UserStore } from './users.ts'
import type { WakeUpStore } from './wake-ups.ts'
import type { WebhookStore } from './webhooks.ts'

export interface Store
  extends PartnerStore,
    KeyStore,
    TierStore,
    UserStore,
    PlanStore,
    WindowStore,
    ExecutionStore,
    TradeStore,
    WebhookStore,
    WakeUpStore,
    PassStore,
    ClockStore,
    PriceStore,
    MonthStore,
    SandboxStore,
    AuditStore,
    StatusStore,
    LostWriteStore,
    CheckStore,
    MonitoringStore,
    OpsPageStore {
  close(): Promise<void>
}
