// What an operator does to the program, by the store's methods and the core's decisions, as the commands do it.

import { cancelByHand } from '../../../src/core/confirmation.ts'
import { setTier } from '../../../src/core/fees.ts'
import { revoke, rotate } from '../../../src/core/key.ts'
import { acceptLate, adjust } from '../../../src/core/late-fill.ts'
import { btc, usd } from '../../../src/core/money.ts'
import {
  type Partner,
  setHeld,
  setMinTranche,
  setPartnerStatus,
  type Tenant,
} from '../../../src/core/partner.ts'
import { Problem } from '../../../src/core/problem.ts'
import { issueKey } from '../../../src/keys.ts'
import type { AuditEntry } from '../../../src/store/store.ts'
import type { Lever } from '../action.ts'
import type { Parts } from './system.ts'

/** Pulls a lever. Answers the code of the refusal, or null. */
export async function pull(parts: Parts, lever: Lever & { id?: string }): Promise<string | null> {
  try {
    await act(parts, lever)
    return null
  } catch (error) {
    if (error instanceof Problem) return error.code
    throw error
  }
}

async function act(parts: Parts, lever: Lever & { id?: string }): Promise<void> {
  const { store, machine, secrets } = parts
  const audit = { osUser: 'simulation', action: lever.lever, subject: 'simulation', detail: {} }
  const ids = { executionId: lever.id ?? '', reportId: 'number' in lever ? lever.number : null }
  switch (lever.lever) {
    case 'partner':
      await store.addPartner({ partnerSlug: lever.slug, name: lever.slug }, audit)
      return
    case 'change':
      await store.changePartner(lever.slug, (seen, now) => changed(seen, lever.to, now), audit)
      return
    case 'key': {
      const tenant = await tenantNamed(parts, lever.tenant)
      const { record, secret } = issueKey({ tenant, label: lever.label, lifetimeMs: lever.life }, machine)
      await store.addKey(record, audit)
      secrets.set(lever.label, { keyId: record.keyId, secret })
      return
    }
    case 'rotate':
      return rotateKey(parts, lever, audit)
    case 'revoke':
      await store.changeKey(
        keyId(parts, lever.key),
        (seen, time) => ({ key: revoke(seen, time), successor: null }),
        audit,
      )
      return
    case 'tier': {
      const { name, from, bps, volume, perUser, minimum } = lever.terms
      const terms = {
        name,
        rateBps: bps,
        fromMonth: from,
        minVolume: volume === undefined ? undefined : usd(volume),
        perActiveUser: perUser === undefined ? undefined : usd(perUser),
        monthlyMinimum: minimum === undefined ? undefined : usd(minimum),
      }
      await store.putTier(
        (versions, now) => setTier(versions, terms, now),
        () => audit,
      )
      return
    }
    case 'override': {
      const { slug, tier, from } = lever
      await store.putTierOverride({ partnerSlug: slug, tierName: tier, fromMonth: from }, audit)
      return
    }
    case 'reset':
      await store.resetSandbox(await tenantNamed(parts, lever.tenant), audit)
      return
    case 'erase':
      await store.eraseUser(await tenantNamed(parts, lever.tenant), lever.user, audit)
      return
    case 'bringBack':
      await bringBack(parts, lever, audit)
      return
    case 'cancel':
      await store.cancelExecution(ids.executionId, (seen, now) => cancelByHand(seen, 'simulated', now), audit)
      return
    case 'accept':
      await store.acceptLateReport(ids, acceptLate, () => audit)
      return
    case 'dismiss':
      await store.dismissLateReports(ids, () => audit)
      return
    case 'adjust': {
      const right = { usd: usd(lever.usd), btc: btc(lever.btc), reason: 'simulated' }
      await store.adjustTrade(
        ids.executionId,
        (seen, now) => adjust(seen, right, now),
        () => audit,
      )
      return
    }
  }
}

async function bringBack(
  { store }: Parts,
  { tenant, plan: name }: Extract<Lever, { lever: 'bringBack' }>,
  audit: AuditEntry,
): Promise<void> {
  const named = await store.findPlans(name)
  const plan = named.find((one) => `${one.tenant.partnerSlug}/${one.tenant.environment}` === tenant)
  if (plan) await store.bringBack(plan.planId, () => audit)
}

async function rotateKey(
  { store, secrets, machine }: Parts,
  { key, label, overlap }: Extract<Lever, { lever: 'rotate' }>,
  audit: AuditEntry,
): Promise<void> {
  let issued: { keyId: string; secret: string } | null = null
  await store.changeKey(
    keyId({ secrets }, key),
    (seen, time) => {
      const { key: old, successor } = rotate(seen, overlap, time)
      const { record, secret } = issueKey(successor, machine)
      issued = { keyId: record.keyId, secret }
      return { key: old, successor: record }
    },
    audit,
  )
  if (issued) secrets.set(label, issued)
}

function changed(
  seen: Partner,
  { status, held, minTranche }: Extract<Lever, { lever: 'change' }>['to'],
  now: Partner['updatedAt'],
): Partner {
  let partner = seen
  if (status) partner = setPartnerStatus(partner, status, now)
  if (held !== undefined) partner = setHeld(partner, held, now)
  return minTranche === undefined ? partner : setMinTranche(partner, usd(minTranche), now)
}

const keyId = ({ secrets }: Pick<Parts, 'secrets'>, label: string): string =>
  secrets.get(label)?.keyId ?? label

async function tenantNamed({ store }: Parts, name: string): Promise<Tenant> {
  const [slug = '', environment] = name.split('/')
  const tenant = await store.findTenant(slug, environment === 'live' ? 'live' : 'test')
  if (!tenant) throw new Error(`there is no tenant ${name}`)
  return tenant
}
