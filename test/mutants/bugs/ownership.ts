// Planted bugs in the ownership of data and orders: tenants, keys, users who left and users who were erased.

import type { Bugs } from '../rows.ts'

export const OWNERSHIP: Bugs = {
  contract: {
    'plan-of-any-tenant': {
      breaks:
        'A plan is looked up by its name alone. A partner who reuses the name rewrites the plan of another one.',
      find: 'where p.tenant_id = :tenant and p.partner_plan_id = :partner_plan_id',
      replace: 'where p.partner_plan_id = :partner_plan_id',
    },
    'users-of-every-tenant': {
      breaks: 'The listing of users shows those of every tenant: personal data of strangers.',
      find: '${SELECT_LISTED} and u.user_id > :after order by u.user_id limit :limit',
      replace: '${SELECT_LISTED} or u.user_id > :after order by u.user_id limit :limit',
    },
    'plans-of-every-tenant': {
      breaks: 'A partner reads the plans of all other partners together with its own.',
      find: 'where p.tenant_id = :tenant`',
      replace: 'where :tenant = :tenant`',
    },
    'confirm-of-any-tenant': {
      breaks: 'A confirmation finds the execution of any tenant. A partner can end the purchases of another.',
      find: 'where e.execution_id = a.execution_id and +e.tenant_id = :tenant',
      replace: 'where e.execution_id = a.execution_id',
    },
    'order-id-across-tenants': {
      breaks:
        'An order id is taken for everybody once one tenant has used it. The confirmation of another partner is refused, and what it bought is not on the books.',
      find: 'tenant_id is not distinct from :tenant and partner_order_id = ${order}',
      replace: 'partner_order_id = ${order}',
    },
    'lines-of-every-tenant': {
      breaks: 'A partner reads the trades of all other partners together with its own.',
      find: "const OF_ONE = linesOf('t.tenant_id = :tenant')",
      replace: "const OF_ONE = linesOf(':tenant = :tenant')",
    },
    'deliveries-of-every-tenant': {
      breaks:
        'A partner is shown what was sent to the webhooks of every other one: when they buy, how much is due, and where they listen.',
      find: "from webhook_deliveries where tenant_id = :tenant order by number desc limit :limit'",
      replace: "from webhook_deliveries where tenant_id <> -:tenant order by number desc limit :limit'",
    },
    'webhook-of-both-environments': {
      breaks:
        'Deleting the webhook of a test environment deletes the live one too. The partner is no longer woken, and buys late.',
      find: "const DELETE_WEBHOOK = query('delete from webhooks where tenant_id = :tenant')",
      replace:
        "const DELETE_WEBHOOK = query('delete from webhooks where tenant_id in (select other.tenant_id from tenants other join tenants t using (partner_slug) where t.tenant_id = :tenant)')",
    },
    'unknown-fill-of-anybody': {
      breaks:
        'A report of an execution that another tenant has is kept. Accepted, it would be booked where nothing was lost.',
      find: 'select 1 from executions where execution_id = :execution_id',
      replace: 'select 1 from executions where execution_id = :execution_id and tenant_id = :tenant',
    },
    'reset-reaches-live-rows': {
      breaks:
        'A reset of a sandbox removes the windows of other tenants, live ones included: their ledger is gone.',
      find: "['windows', 'plan_id in (select plan_id from plans where tenant_id = :tenant)']",
      replace: "['windows', 'plan_id in (select plan_id from plans where tenant_id >= :tenant)']",
    },
    'live-clock-moved': {
      breaks: 'The clock of a live environment can be moved on. Windows end that nobody could buy in.',
      find: 'async moveSandbox(tenant, byMs, { wakeUpId, planIds, decisions }) { refuseLive(tenant)',
      replace: 'async moveSandbox(tenant, byMs, { wakeUpId, planIds, decisions }) {',
    },
    'key-hash-not-unique': {
      breaks:
        'Nothing in the file keeps two keys from having one secret. A revoked key could still open the door under the other name.',
      find: 'key_sha256 text not null unique check (length(key_sha256) = 64)',
      replace: 'key_sha256 text not null check (length(key_sha256) = 64)',
    },
    'revoked-key-still-usable': {
      breaks:
        'The revocation of a key is audited and not stored. Anyone who has the key goes on buying with it.',
      find: 'revoked_at: revokedAt,',
      replace: 'revoked_at: null,',
    },
    'disabled-partner-stays-awake': {
      breaks: 'The plans of a disabled partner stay in the due set: they go on buying.',
      find: "case when p.status = 'active' and p.smart_timing_enabled = 1 and r.status = 'active'",
      replace: "case when p.status = 'active' and p.smart_timing_enabled = 1",
    },
    'disable-leaves-plans-awake': {
      breaks: 'A disable leaves the schedules in the due set. The next pass buys for a user who has left.',
      find: 'tx.run(SLEEP, plans),',
      replace: '',
    },
    'executions-of-every-tenant': {
      breaks: 'A partner lists the executions of all other partners together with its own.',
      find: '${SELECT_EXECUTION} where e.tenant_id = :tenant and (e.created_at, e.execution_id) > (:at, :id)',
      replace: '${SELECT_EXECUTION} where :tenant = :tenant and (e.created_at, e.execution_id) > (:at, :id)',
    },
  },
  copy: {
    'erasures-not-done-again': {
      breaks:
        'A restore brings back the e-mail of a user who was erased since the backup: personal data that was to be gone.',
      find: 'const remembered = latestErasures(erasures)',
      replace: 'const remembered = latestErasures(erasures.slice(erasures.length))',
    },
  },
}
