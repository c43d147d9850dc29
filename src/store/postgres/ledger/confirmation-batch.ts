// Confirmations that are decided one after the other and written together: each sees what those before it have changed.

import type { Confirmation, ExecutionSeen, Recorded, Refused } from '../../../core/confirmation.ts'
import type { Execution } from '../../../core/execution.ts'
import type { ExecutionId } from '../../../core/execution-id.ts'
import { type Instant, later } from '../../../core/instant.ts'
import type { LateFill } from '../../../core/keep-late-fill.ts'
import type { DamagedRow } from '../../../core/problem.ts'
import type { Trade } from '../../../core/trade.ts'
import type { Window } from '../../../core/window.ts'

export type Asked = { executionId: string; partnerOrderId: string }

/** An order that is on record, and the execution that holds it. */
export type Holder = { partnerOrderId: string; executionId: ExecutionId }

/** What is on record of the executions and orders that are asked for. */
export type OnRecord = {
  executions: readonly Execution[]
  windows: readonly Window[]
  /** By execution, why it cannot be decided. */
  damaged: ReadonlyMap<string, DamagedRow>
  trades: readonly Trade[]
  /** Oldest first. */
  lateFills: readonly { executionId: string; late: LateFill }[]
  holders: readonly Holder[]
  latestRecordedAt: Instant | null
}

export type ConfirmationBatch = {
  seen(asked: Asked): ExecutionSeen
  take(confirmation: Confirmation, now: Instant): void
  /** All that was taken; the windows as they are after all of it. */
  changes(): { recorded: readonly Recorded[]; refused: readonly Refused[]; windows: readonly Window[] }
}

export function createBatch(found: OnRecord): ConfirmationBatch {
  const executions = new Map<string, Execution>(found.executions.map((one) => [one.executionId, one]))
  const windows = new Map(found.windows.map((window) => [window.windowId, window]))
  const trades = new Map<string, Trade>(found.trades.map((trade) => [trade.executionId, trade]))
  const lateFills = Map.groupBy(found.lateFills, ({ executionId }) => executionId)
  const holders = Map.groupBy(found.holders, ({ partnerOrderId }) => partnerOrderId)
  let latest = found.latestRecordedAt
  const recorded: Recorded[] = []
  const refused: Refused[] = []

  const add = <V>(map: Map<string, V[]>, key: string, value: V): void => {
    map.set(key, [...(map.get(key) ?? []), value])
  }

  return {
    seen({ executionId, partnerOrderId }) {
      const damage = found.damaged.get(executionId)
      if (damage) throw damage
      const execution = executions.get(executionId) ?? null
      const holder = holders.get(partnerOrderId)?.find((one) => one.executionId !== executionId)
      return {
        execution,
        window: execution && (windows.get(execution.windowId) ?? null),
        trade: trades.get(executionId) ?? null,
        lateFills: (lateFills.get(executionId) ?? []).map(({ late }) => late),
        orderHeldBy: holder?.executionId ?? null,
        latestRecordedAt: latest,
      }
    },

    take(confirmation, now) {
      if (confirmation.kind === 'recorded') {
        const { execution, window, trade } = confirmation
        const { executionId } = execution
        executions.set(executionId, execution)
        windows.set(window.windowId, window)
        trades.set(executionId, trade)
        add(holders, trade.report.partnerOrderId, {
          partnerOrderId: trade.report.partnerOrderId,
          executionId,
        })
        latest = latest === null ? trade.recordedAt : later(latest, trade.recordedAt)
        recorded.push(confirmation)
      }
      if (confirmation.kind === 'refused') {
        const { executionId } = confirmation.execution
        if (confirmation.keeping === 'new')
          add(lateFills, executionId, { executionId, late: keptLate(confirmation, now) })
        refused.push(confirmation)
      }
    },

    changes() {
      const touched = new Set(recorded.map(({ window }) => window.windowId))
      return { recorded, refused, windows: [...touched].map((id) => windows.get(id) as Window) }
    },
  }
}

/** As it will be once it is written; its number is only given then. */
const keptLate = ({ report, reason }: Refused, now: Instant): LateFill => ({
  reportId: 0,
  report,
  reason,
  receivedAt: now,
  acceptedAt: null,
  decidedAt: null,
  decisionReason: null,
})
