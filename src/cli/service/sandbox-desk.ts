// A partner's actions on its test environment over the API: those of the operator's `tranche sandbox`, within the same
// limits, with the same results and in the same audit log.

import { formatPrice, formatUsd, type Price } from '../../core/money.ts'
import { type Caller, type Tenant, tenantJson } from '../../core/partner.ts'
import { notFound, Problem } from '../../core/problem.ts'
import {
  ADVANCE_EXECUTIONS_MAX,
  ADVANCE_MAX_MS,
  ANSWER_AFTER_MS,
  advanceUnderWay,
  WAKE_UPS_PER_MINUTE,
} from '../../core/sandbox.ts'
import { formatInstant, MINUTE_MS, plus, SECOND_MS, spellSpan } from '../../core/time.ts'
import { type Advanced, advanceSandbox, fireInSandbox } from '../../engine/sandbox.ts'
import type { AdvancedJson, FiredJson, SandboxJson, WipedJson } from '../../http/answer-schemas.ts'
import { Refusal } from '../../http/error-codes.ts'
import type { SandboxDesk } from '../../http/sandbox.ts'
import type { Log } from '../../log.ts'
import type { Machine } from '../../machine.ts'
import type { AuditEntry, Fired, Store, Wiped } from '../../store/store.ts'
import { type SendWakeUp, type Woken, wakePartners } from '../../webhook/wake-partners.ts'

type DeskOptions = {
  store: Store
  machine: Machine
  send: SendWakeUp
  log: Log
  answerAfterMs?: number
  advanceMaxMs?: number
  executionsMax?: number
  wakeUpsPerMinute?: number
}

/** `stop` ends a running advance at its next step, where the clock then stays. */
export type OpenDesk = SandboxDesk & { stop: () => Promise<void> }

export function createSandboxDesk(options: DeskOptions): OpenDesk {
  const { store, machine, log } = options
  const {
    answerAfterMs = ANSWER_AFTER_MS,
    advanceMaxMs = ADVANCE_MAX_MS,
    executionsMax = ADVANCE_EXECUTIONS_MAX,
  } = options
  const startWaking = createWaking(options)
  /** For each tenant, the target of its advance. */
  const advancing = new Map<number, { to: string; ended: Promise<unknown> }>()
  let isStopping = false

  async function advance(caller: Caller, byMs: number, price: Price | null): Promise<AdvancedJson> {
    const endsAt = performance.now() + advanceMaxMs
    const waking = await startWaking(caller)
    try {
      const advanced = await advanceSandbox({
        store,
        machine,
        tenant: caller,
        byMs,
        executionsMax,
        price,
        audit: entryOf(caller, 'sandbox.advance', { by_ms: byMs, price_usd: price && formatPrice(price) }),
        onProgress: () => {
          if (isStopping) throw new EndsEarly('the service stops')
          if (performance.now() >= endsAt) throw new EndsEarly('it has taken too long')
        },
        onEnd: ({ wakeUpId, executionsCreated }) => waking.send(wakeUpId, executionsCreated),
      })
      const woken = await waking.send(advanced.wakeUpId, advanced.executionsCreated)
      return advancedJson(caller, advanced, woken)
    } finally {
      waking.end()
    }
  }

  return {
    look: async (caller) => {
      const { now, offsetMs } = await store.readSandbox(caller)
      return {
        ...tenantJson(caller),
        now: formatInstant(now),
        offset_ms: offsetMs,
        offset: spellSpan(offsetMs),
        advancing_to: advancing.get(caller.tenantId)?.to ?? null,
      } satisfies SandboxJson
    },

    async advance(caller, byMs, price) {
      if (advancing.has(caller.tenantId)) throw advanceUnderWay()
      const { now, offsetMs } = await store.readSandbox(caller)
      const work = advance(caller, byMs, price)
      const to = formatInstant(plus(now, byMs))
      const inTime = await Promise.race([work.catch(unlessEarly), after(answerAfterMs)])
      if (inTime) return inTime
      const ended = work
        .catch((err) =>
          log.warn({ partner_slug: caller.partnerSlug, err }, 'an advance ended before its time'),
        )
        .finally(() => advancing.delete(caller.tenantId))
      advancing.set(caller.tenantId, { to, ended })
      return { ...tenantJson(caller), done: false, from: formatInstant(now), to, offset_ms: offsetMs + byMs }
    },

    async fire(caller, partnerPlanId, price) {
      const detail = { partner_plan_id: partnerPlanId, price_usd: price && formatPrice(price) }
      const audit = entryOf(caller, 'sandbox.fire', detail)
      const waking = await startWaking(caller)
      const parts = { store, machine, tenant: caller, price, audit }
      const { fired, wakeUpId } = await fireInSandbox(partnerPlanId, parts).catch((error) => {
        // As on every other route, the caller's values are not repeated to it.
        throw error instanceof Problem && error.code === 'plan_not_found' ? notFound('plan') : error
      })
      return firedJson(caller, partnerPlanId, fired, await waking.send(wakeUpId, 1))
    },

    reset: async (caller) =>
      wipedJson(caller, await store.resetSandbox(caller, entryOf(caller, 'sandbox.reset', {}))),

    async stop() {
      isStopping = true
      await Promise.all([...advancing.values()].map(({ ended }) => ended))
    },
  }
}

/** An advance ends before its target: a call that still waits is answered as for one that takes longer. */
class EndsEarly extends Error {}

function unlessEarly(error: unknown): null {
  if (error instanceof EndsEarly) return null
  throw error
}

const after = (ms: number): Promise<null> =>
  new Promise((resolve) => setTimeout(() => resolve(null), ms).unref())

type Waking = {
  send: (passId: number, executionsCreated: number) => Promise<Woken>
  /** If nothing was sent, the call does not count. */
  end: () => void
}

/** Admits a call that wakes its partner. Throws a Refusal: 429, when others did so too often. */
function createWaking({ store, send, log, wakeUpsPerMinute = WAKE_UPS_PER_MINUTE }: DeskOptions) {
  const take = createWakeUpLimit(wakeUpsPerMinute)
  return async (caller: Caller): Promise<Waking> => {
    // A webhook registered from here on is not woken by this call, which would bypass the limit.
    const isActive = (await store.findWebhook(caller))?.status === 'active'
    const giveBack = isActive ? take(caller.tenantId) : null
    let hasWoken = false
    return {
      async send(passId, executionsCreated) {
        if (giveBack === null || executionsCreated === 0) return { sent: 0, failed: 0 }
        hasWoken = true
        const warn = (message: string, fields: object): void => log.warn(fields, message)
        return wakePartners({ passId, executionsCreated }, { store, send: async () => send, warn })
      },
      end() {
        if (!hasWoken) giveBack?.()
      },
    }
  }
}

/** Counts the calls of each tenant that wake somebody. Its result undoes one. Throws a Refusal: 429. */
function createWakeUpLimit(perMinute: number): (tenantId: number) => () => void {
  const taken = new Map<number, number[]>()
  return (tenantId) => {
    const now = performance.now()
    const lately = (taken.get(tenantId) ?? []).filter((at) => at > now - MINUTE_MS)
    if (lately.length >= perMinute) {
      const waitS = Math.ceil(((lately[0] ?? now) + MINUTE_MS - now) / SECOND_MS)
      const detail = `At most ${perMinute} calls a minute fire tranches where a webhook is active.`
      throw new Refusal('rate_limited', detail, { 'retry-after': String(waitS) })
    }
    taken.set(tenantId, [...lately, now])
    return () => {
      const counted = taken.get(tenantId) ?? []
      const mine = counted.indexOf(now)
      if (mine >= 0) counted.splice(mine, 1)
    }
  }
}

/** In place of a user of the operating system, the log has the key of the call. */
const entryOf = (
  { keyId = '', partnerSlug }: Caller,
  action: string,
  detail: Record<string, unknown>,
): AuditEntry => ({ osUser: `key ${keyId}`, action, subject: partnerSlug, detail })

export const advancedJson = (tenant: Tenant, advanced: Advanced, woken: Woken): AdvancedJson => ({
  ...tenantJson(tenant),
  done: true,
  from: formatInstant(advanced.before.now),
  to: formatInstant(advanced.after.now),
  offset_ms: advanced.after.offsetMs,
  price_usd: advanced.price && formatPrice(advanced.price),
  passes: advanced.passes,
  executions_created: advanced.executionsCreated,
  windows_rolled: advanced.windowsRolled,
  leases_expired: advanced.leasesExpired,
  webhooks_sent: woken.sent,
  webhooks_failed: woken.failed,
})

export const firedJson = (tenant: Tenant, partnerPlanId: string, fired: Fired, woken: Woken): FiredJson => ({
  ...tenantJson(tenant),
  partner_plan_id: partnerPlanId,
  execution_id: fired.executionId,
  amount_usd: formatUsd(fired.tranche.amount),
  trigger: fired.tranche.trigger,
  tranche_index: fired.schedule.trancheIndex - 1,
  webhooks_sent: woken.sent,
  webhooks_failed: woken.failed,
})

export const wipedJson = (tenant: Tenant, wiped: Wiped): WipedJson => ({ ...tenantJson(tenant), ...wiped })
