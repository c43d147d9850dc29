// A partner that works without a break while its service is killed again and again: it remembers what it was answered,
// buys once for each idempotency key, and sends again whatever got no answer.

import assert from 'node:assert/strict'
import { anyReport, anyTerms, CONSENT, type Due, LEASE_MS, type Report } from '../purchases.ts'

export type Partner = {
  /** What was answered with 200, and so must never be gone. */
  users: Set<string>
  plans: Set<string>
  leases: Map<string, Due>
  reports: Map<string, Report>
  /** What was bought and got no answer yet. */
  unanswered: Map<string, Report>
  /** Calls that were answered. */
  calls: number
  /** Adds plans, polls and confirms until a call fails or `until` says so; anything but a 200 is an error. */
  work: (url: string, until: () => boolean) => Promise<void>
  /** Links users and sends so many plans. */
  enrol: (url: string, plans: number) => Promise<void>
}

const PLANS_OF_A_USER = 5

class Unanswered extends Error {}

export function createPartner(key: string, random: () => number): Partner {
  const partner: Partner = {
    users: new Set(),
    plans: new Set(),
    leases: new Map(),
    reports: new Map(),
    unanswered: new Map(),
    calls: 0,
    work,
    enrol,
  }
  /** The execution for which each idempotency key was bought. */
  const bought = new Map<string, string>()
  let names = 0

  async function call<T>(url: string, method: string, path: string, body?: object): Promise<T> {
    let answer: Response
    let text: string
    try {
      answer = await fetch(`${url}/partner/v1${path}`, {
        method,
        headers: { authorization: `Bearer ${key}` },
        ...(body && { body: JSON.stringify(body) }),
      })
      text = await answer.text()
    } catch (error) {
      throw new Unanswered(String(error))
    }
    assert.equal(answer.status, 200, `${method} ${path}: ${text}`)
    partner.calls += 1
    return JSON.parse(text)
  }

  async function enrol(url: string, plans: number): Promise<void> {
    await Promise.all(
      Array.from({ length: Math.ceil(plans / PLANS_OF_A_USER) }, async () => {
        const user = `user-${names++}`
        await call(url, 'POST', '/users', { partner_user_id: user, ...CONSENT })
        partner.users.add(user)
        for (let i = 0; i < PLANS_OF_A_USER; i++) {
          const plan = `${user}-plan-${i}`
          const ids = { partner_user_id: user, partner_plan_id: plan }
          await call(url, 'POST', '/plans', { ...ids, ...anyTerms(random) })
          partner.plans.add(plan)
        }
      }),
    )
  }

  async function work(url: string, until: () => boolean): Promise<void> {
    const doing = async (task: () => Promise<unknown>): Promise<void> => {
      while (!until()) await task()
    }
    const tasks = [
      () => pollAndConfirm(url),
      () => enrol(url, PLANS_OF_A_USER),
      () => call(url, 'GET', '/me'),
    ]
    const ends = await Promise.allSettled([resend(url), ...tasks.map(doing)])
    for (const end of ends)
      if (end.status === 'rejected' && !(end.reason instanceof Unanswered)) throw end.reason
  }

  async function resend(url: string): Promise<void> {
    await Promise.all([...partner.unanswered].map(([id, report]) => confirm(url, id, report)))
    // What was answered long ago is answered the same again.
    const [id, report] = [...partner.reports].at(Math.floor(random() * partner.reports.size)) ?? []
    if (id === undefined) return
    const again = await call<{ replayed?: boolean }>(url, 'POST', `/executions/${id}/confirm`, report)
    assert.equal(again.replayed, true, `${id} was answered before`)
  }

  async function pollAndConfirm(url: string): Promise<void> {
    const due = await call<Due[]>(url, 'GET', '/executions/due')
    for (const one of due) noteDelivery(one)
    await Promise.all(due.map((one) => buy(url, one)))
  }

  function noteDelivery(now: Due): void {
    const { execution_id: id, idempotency_key } = now
    const before = partner.leases.get(id)
    assert.ok(!partner.reports.has(id), `${id} is delivered after it was confirmed`)
    if (before) {
      const deliveredAt = Date.parse(now.lease_expires_at) - LEASE_MS
      assert.ok(deliveredAt >= Date.parse(before.lease_expires_at), `${id} is delivered inside its lease`)
      assert.ok(now.delivered_count > before.delivered_count, `${id} counts its deliveries`)
      assert.equal(before.idempotency_key, idempotency_key, `${id} keeps its idempotency key`)
    }
    partner.leases.set(id, now)
  }

  async function buy(url: string, { execution_id: id, idempotency_key, amount_usd }: Due): Promise<void> {
    // Some are left alone until their lease is over.
    if (random() < 0.1) return
    assert.equal(bought.get(idempotency_key) ?? id, id, `${idempotency_key} is one purchase`)
    bought.set(idempotency_key, id)
    await confirm(
      url,
      id,
      partner.unanswered.get(id) ?? anyReport(random, `order ${idempotency_key}`, amount_usd),
    )
  }

  async function confirm(url: string, id: string, report: Report): Promise<void> {
    partner.unanswered.set(id, report)
    await call(url, 'POST', `/executions/${id}/confirm`, report)
    partner.unanswered.delete(id)
    partner.reports.set(id, report)
  }

  return partner
}
