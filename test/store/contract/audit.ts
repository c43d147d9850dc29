// The audit log: read in pages, by time, and by whom it is about.

import assert from 'node:assert/strict'
import type { ListedAuditEntry, Store } from '../../../src/store/store.ts'
import { AUDIT, type Contract, keyFor, link, openWorld, poll, sendPlan, tick } from '../world.ts'

const auditOf = (store: Store): Promise<ListedAuditEntry[]> => store.listAudit({ after: null, limit: 1_000 })
const note = (action: string) => ({ ...AUDIT, action, subject: 'acme', detail: { action } })

export const auditContract: Contract = {
  'the audit log is read in pages behind a cursor': async (t, open) => {
    const { store } = await openWorld(t, open)
    for (let i = 0; i < 4; i++) await store.changePartner('acme', (seen) => seen, note(`change ${i}`))
    const all = await auditOf(store)
    const first = await store.listAudit({ after: null, limit: 2 })
    const rest = await store.listAudit({ after: first[1]?.auditId ?? 0, limit: 1_000 })
    assert.deepEqual([...first, ...rest], all)
  },

  'the audit log gives the entries of a time, and those about a partner': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, acme, acmeLive, bolt, now, advance } = world
    const since = now()
    const add = async (action: string, subject: string, detail = {}) => {
      await store.changePartner('acme', (seen) => seen, { osUser: 'ops', action, subject, detail })
      advance(1)
    }
    await link(store, acme)
    await sendPlan(store, acme)
    await tick(world, '60000')
    const [execution = ''] = (await poll(store, acme)).map(({ executionId }) => executionId)
    const [own, other] = [keyFor(acmeLive), keyFor(bolt)]
    for (const key of [own, other]) await store.addKey(key, AUDIT)
    const [mine, notMine] = [await store.findKey(own.sha256), await store.findKey(other.sha256)]
    const about: [action: string, subject: string, detail?: object][] = [
      ['partner.hold', 'acme'],
      ['key.revoke', mine?.key.keyId ?? ''],
      ['trade.adjust', execution],
      ['execution.cancel', execution],
      ['user.erase', 'u', { partner_slug: 'acme' }],
      ['plan.bring-back', 'acme live plan p'],
      ['sandbox.reset', 'acme'],
      ['webhook.resume', 'acme live'],
    ]
    const strange: typeof about = [
      ['partner.hold', 'bolt'],
      ['key.revoke', notMine?.key.keyId ?? ''],
      ['trade.adjust', 'exec_of_nobody'],
      ['user.erase', 'acme', { partner_slug: 'bolt' }],
      ['plan.bring-back', 'acme-2 live plan p'],
      ['webhook.resume', 'acme-2 live'],
      ['tier.set', 'acme'],
      ['database.restore', 'acme'],
    ]
    for (const entry of [...about, ...strange]) await add(...entry)
    const page = { after: null, limit: 100 }
    const seen = await store.listAudit(page, { since, until: null, slug: 'acme' })
    const made = seen.filter(({ action }) => action !== AUDIT.action)
    assert.deepEqual(
      made.map(({ action, subject }) => [action, subject]),
      about.map(([action, subject]) => [action, subject]),
    )
    // Each entry says whom it is about, whoever is asked for.
    const all = await store.listAudit(page, { since, until: null, slug: null })
    assert.deepEqual(
      all.filter(({ action }) => action !== AUDIT.action).map(({ partnerSlug }) => partnerSlug),
      [...about.map(() => 'acme'), 'bolt', 'bolt', null, 'bolt', null, null, null, null],
    )
    const [second, third] = [made[1]?.at ?? since, made[2]?.at ?? since]
    const between = await store.listAudit(page, { since: second, until: third, slug: null })
    assert.deepEqual(
      between.map(({ action }) => action),
      ['key.revoke'],
    )
  },
}
