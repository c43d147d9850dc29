// Planted bugs in what a partner is handed: executions that are due, their order and leases, and the wake-ups.

import type { Row } from '../rows.ts'

export const DELIVERY: readonly Row[] = [
  {
    name: 'poll-of-every-tenant',
    by: ['contract'],
    breaks:
      "A poll is handed the executions of every tenant. One partner buys what another one's users pay for.",
    edits: [
      {
        find: 'tenant_id = :tenant and (lease_expires_at <= :now or lease_expires_at > :now + ${LEASE_AHEAD_MAX_MS})',
        replace: '(lease_expires_at <= :now or lease_expires_at > :now + ${LEASE_AHEAD_MAX_MS})',
      },
      {
        find: 'where e.tenant_id = :tenant and ${IS_OPEN} and e.lease_expires_at is nullif(:lease, 0)',
        replace: 'where ${IS_OPEN} and e.lease_expires_at is nullif(:lease, 0)',
      },
      {
        find: 'from json_each(:delivered) d where execution_id = d.value ->> 0 and +tenant_id = :tenant',
        replace: 'from json_each(:delivered) d where execution_id = d.value ->> 0',
      },
    ],
  },
  {
    name: 'lease-over-a-millisecond-late',
    by: ['contract', 'simulate'],
    breaks: 'An execution whose lease is over is delivered again a millisecond later than it must be.',
    find: 'tenant_id = :tenant and (lease_expires_at <= :now or lease_expires_at > :now + ${LEASE_AHEAD_MAX_MS})',
    replace:
      'tenant_id = :tenant and (lease_expires_at < :now or lease_expires_at > :now + ${LEASE_AHEAD_MAX_MS})',
  },
  {
    name: 'lease-of-a-clock-set-back',
    by: ['contract'],
    breaks:
      'A lease taken under a clock that was ahead holds until that time comes. A partner that lost the answer cannot buy for days.',
    find: 'tenant_id = :tenant and (lease_expires_at <= :now or lease_expires_at > :now + ${LEASE_AHEAD_MAX_MS})',
    replace: 'tenant_id = :tenant and lease_expires_at <= :now',
  },
  {
    name: 'newest-first',
    by: ['contract'],
    breaks:
      'A poll hands out the newest executions first. With a long backlog the oldest wait until their window is over.',
    find: 'order by e.created_at, e.execution_id limit :limit`,',
    replace: 'order by e.created_at desc, e.execution_id desc limit :limit`,',
  },
  {
    name: 'redelivered-last',
    by: ['contract'],
    breaks:
      'A poll puts what was delivered before behind everything new. An execution whose answer was lost waits behind the backlog.',
    find: 'if (older.length > 0) found = [...found, ...older].sort(byCreation).slice(0, limit)',
    replace: 'if (older.length > 0) found = [...found, ...older.sort(byCreation)].slice(0, limit)',
  },
  {
    name: 'one-more-than-the-limit',
    by: ['contract'],
    breaks:
      'A poll hands out one execution more than it was asked for. A partner that drops what is beyond its page does not buy it until the lease is over.',
    find: [
      'const older = sql.underLease.all({ tenant: tenant.tenantId, lease, created_at, execution_id, limit })',
      'if (older.length > 0) found = [...found, ...older].sort(byCreation).slice(0, limit)',
    ],
    replace: [
      'const older = sql.underLease.all({ tenant: tenant.tenantId, lease, created_at, execution_id, limit: limit + 1 })',
      'if (older.length > 0) found = [...found, ...older].sort(byCreation).slice(0, limit + 1)',
    ],
  },
  {
    name: 'remaining-with-the-handed',
    by: ['contract'],
    breaks:
      'A poll counts what it hands out among what remains. The partner polls on for what it already has.',
    edits: [
      {
        find: 'function hand(tenant: Tenant, { limit, deliver, now }: Handing): DuePage {',
        replace: [
          'function hand(tenant: Tenant, { limit, deliver, now }: Handing): DuePage {',
          '  const before = dueList.count(tenant, now)',
        ],
      },
      {
        find: 'return { executions, remaining: dueList.count(tenant, now) - (due.length - sound.length) }',
        replace: 'return { executions, remaining: before - (due.length - sound.length) }',
      },
    ],
  },
  {
    name: 'wake-ups-claimed-twice',
    by: ['contract'],
    breaks:
      'A wake-up can be claimed twice, and is sent twice: a partner may take it for news of further purchases.',
    find: 'update webhook_events set claimed_at = :now where tick_id = :tick_id and claimed_at is null',
    replace: 'update webhook_events set claimed_at = :now where tick_id = :tick_id',
  },
  {
    name: 'wake-up-of-another-sandbox',
    by: ['contract'],
    breaks:
      'An advance and a fire meanwhile have one wake-up. It is sent with the fire, and never for the advance.',
    find: 'as id from audit`',
    replace: 'as id from audit where action is null`',
  },
  {
    name: 'wake-up-of-the-last-page',
    by: ['contract'],
    breaks: 'The wake-up of a pass counts the executions of its last page alone.',
    find: 'on conflict do update set count = count + excluded.count',
    replace: 'on conflict do update set count = excluded.count',
  },
  {
    name: 'result-of-a-replaced-webhook',
    by: ['contract'],
    breaks:
      'The result of an attempt is entered in the webhook that has replaced the one it was sent to. A new registration is paused by the failures of the old one.',
    find: 'before?.secret === wakeUp.webhook.secret ? decide(before, real) : null',
    replace: 'before ? decide(before, real) : null',
    in: 'sqlite',
  },
  {
    name: 'page-repeats-a-row',
    by: ['contract'],
    breaks:
      "A page of executions begins with the last one of the page before. An operator's list counts it twice.",
    find: 'e.execution_id > :after and (cast(:status as text) is null or e.status = :status)',
    replace: 'e.execution_id >= :after and (cast(:status as text) is null or e.status = :status)',
  },
  {
    name: 'backlog-without-leases',
    by: ['contract'],
    breaks:
      'The backlog that monitoring shows leaves out leases that are over. A partner that never confirms is not noticed.',
    find: '(c.lease_expires_at <= ${OWN_NOW} or c.lease_expires_at > ${OWN_NOW} + ${LEASE_AHEAD_MAX_MS})',
    replace: '(c.lease_expires_at = 0 or c.lease_expires_at > ${OWN_NOW} + ${LEASE_AHEAD_MAX_MS})',
  },
  {
    name: 'lease-of-the-last-instant',
    by: ['contract'],
    breaks:
      'An advance does not count a lease that ends with it. A developer believes that nothing will be delivered again.',
    find: 'and e.lease_expires_at > :from and e.lease_expires_at <= :to',
    replace: 'and e.lease_expires_at > :from and e.lease_expires_at < :to',
  },
  {
    name: 'webhook-of-both-environments',
    by: ['contract'],
    breaks:
      'Deleting the webhook of a test environment deletes the live one too. The partner is no longer woken, and buys late.',
    find: "const DELETE_WEBHOOK = query('delete from webhooks where tenant_id = :tenant')",
    replace: [
      'const DELETE_WEBHOOK = query(`delete from webhooks where tenant_id in (select other.tenant_id from tenants other',
      '  join tenants t using (partner_slug) where t.tenant_id = :tenant)`)',
    ],
  },
  {
    name: 'confirmed-still-counted',
    by: ['contract'],
    breaks:
      'What was delivered and then confirmed or cancelled stays counted as open. A poll says that more remains than there is, and a partner that goes on until nothing does never ends.',
    find: [
      'create trigger executions_counted_off after update of tenant_id, status, lease_expires_at on executions',
      "  when old.status in ('pending', 'sent')",
    ],
    replace: [
      'create trigger executions_counted_off after update of tenant_id, status, lease_expires_at on executions',
      "  when old.status = 'pending'",
    ],
  },
  {
    name: 'fired-not-counted',
    by: ['contract'],
    breaks: 'What a pass fires is not counted as open. It is never handed out, and never bought.',
    find: "create trigger executions_counted_in after insert on executions when new.status in ('pending', 'sent')",
    replace: "create trigger executions_counted_in after insert on executions when new.status = 'sent'",
  },
  {
    name: 'executions-paged-by-time',
    by: ['contract'],
    breaks:
      'A page of executions begins behind the instant of the one before. Of a tick that fired more than a page, the rest is never listed.',
    find: '${SELECT_EXECUTION} where e.tenant_id = :tenant and (e.created_at, e.execution_id) > (:at, :id)',
    replace:
      "${SELECT_EXECUTION} where e.tenant_id = :tenant and (e.created_at > :at or (:id = '' and e.created_at = :at))",
  },
  {
    name: 'polls-leave-no-mark',
    by: ['contract'],
    breaks:
      'A poll leaves no mark in the file. A partner that has stopped polling looks like one that never began, and one that polls looks silent.',
    find: 'return createPollNotes((polls) => write(() => insert.run({ polls: JSON.stringify(polls) })))',
    replace: 'return createPollNotes((polls) => write(() => polls.length > 0 || insert))',
  },
  {
    name: 'redelivered-without-a-lease',
    by: ['simulate'],
    breaks:
      'An execution that is delivered again keeps its old lease, which is over. Every poll after that gets it, two at once as well.',
    find: 'leaseExpiresAt: plus(now, LEASE_MS)',
    replace: 'leaseExpiresAt: execution.leaseExpiresAt ?? plus(now, LEASE_MS)',
  },
  {
    name: 'wake-up-sent-twice',
    by: ['simulate'],
    breaks:
      'A wake-up that fails is sent a second time at once. A receiver that was slow gets it twice, and one that hangs holds up the others for twice as long.',
    find: 'const attempt = await deliver(delivery)',
    replace: [
      'let attempt = await deliver(delivery)',
      'if (attempt.reason !== null) attempt = await deliver(delivery)',
    ],
  },
  {
    name: 'server-lease-off-by-one',
    by: ['simulate'],
    on: 'postgres',
    breaks:
      'On a server the look before a poll finds a lease that ends now not over yet. A partner that polls at lease_expires_at, as it was told to, gets nothing.',
    find: "endOf('asc')} <= t.now or ${endOf(",
    replace: "endOf('asc')} < t.now or ${endOf(",
  },
  {
    name: 'pass-fires-while-standing-still',
    by: ['contract'],
    breaks:
      'A page of a pass does not ask whether the database stands still. After a restore, what was cancelled since the backup fires again.',
    find: ['refuseWhenStill()', 'const from = performance.now()'],
    replace: 'const from = performance.now()',
  },
  {
    name: 'pass-asks-a-feed-while-standing-still',
    by: ['contract'],
    breaks:
      'A pass of a database that stands still asks for a price that nobody needs. A feed that is down warns at each pass, for days, and the reason why nothing fires is lost among it.',
    find: 'await store.refuseWhenStill()',
    replace: '',
  },
  {
    name: 'poll-leases-while-standing-still',
    by: ['contract'],
    breaks:
      'A poll does not ask whether the database stands still. After a restore, what was bought since the backup is handed out again.',
    find: ['if (seal) throw sealedProblem(seal)', 'refuseWhenStill()'],
    replace: 'if (seal) throw sealedProblem(seal)',
  },
  {
    name: 'partners-write-while-standing-still',
    by: ['contract'],
    breaks:
      'A partner changes users and plans of a database that was put back, before anybody has compared it with the partner.',
    find: ['write((now) => {', '  if (stopsWhenStill) refuseWhenStill()'],
    replace: 'write((now) => {',
  },
  {
    name: 'partner-wipes-while-standing-still',
    by: ['contract'],
    breaks:
      'A partner wipes its test environment in a database that was put back, and nobody can compare what was in it.',
    find: ["alone: 'tenants',", 'stopsWhenStill: caller.keyId !== undefined,'],
    replace: "alone: 'tenants',",
  },
  {
    name: 'server-goes-on-after-a-restore',
    by: ['contract'],
    on: 'postgres',
    breaks: 'A database on a server that was put back fires at once: a restore needs no resume there.',
    find: 'if (stopsWhenStill) refuseStill(row)',
    replace: '',
  },
  {
    name: 'poll-of-a-server-answers-while-standing-still',
    by: ['contract'],
    on: 'postgres',
    breaks:
      'A poll that finds nothing is told that nothing is due, though the database stands still and knows less than the partner.',
    find: ['movedTo: state.moved_to })', 'if (state) refuseStill(state)'],
    replace: 'movedTo: state.moved_to })',
  },
  {
    name: 'deliveries-of-every-tenant',
    by: ['contract', 'simulate'],
    breaks:
      'A partner is shown what was sent to the webhooks of every other one: when they buy, how much is due, and where they listen.',
    find: "from webhook_deliveries where tenant_id = :tenant order by number desc limit :limit'",
    replace: "from webhook_deliveries where tenant_id <> -:tenant order by number desc limit :limit'",
  },
  {
    name: 'deliveries-kept-for-ever',
    by: ['contract'],
    breaks:
      'What was sent is never forgotten. Every wake-up of every tick takes disk, for as long as there are any.',
    find: "'delete from webhook_deliveries where tenant_id = :tenant and number <= :before'",
    replace: "'delete from webhook_deliveries where tenant_id = :tenant and number = -:before'",
  },
  {
    name: 'delivery-of-a-replaced-address-lost',
    by: ['contract'],
    breaks:
      'What was sent to an address that was replaced meanwhile is not on record. Who looks for it finds nothing, though it was sent.',
    find: 'addDelivery(tx, tenant, { last, sent: deliveredAt(wakeUp, attempt, real) }),',
    replace:
      'changed ? addDelivery(tx, tenant, { last, sent: deliveredAt(wakeUp, attempt, real) }) : NOTHING,',
  },
  {
    name: 'deliveries-survive-a-reset',
    by: ['contract'],
    breaks:
      'A sandbox that was begun anew lists wake-ups for executions that are gone, under ids that nobody knows.',
    find: "['webhook_deliveries', 'tenant_id = :tenant'],",
    replace: '',
  },
  {
    name: 'wake-ups-count-as-tests',
    by: ['contract'],
    breaks: 'Wake-ups use up the tests of a minute. A partner whose plans fire cannot try out its receiver.',
    find: 'from webhook_deliveries where tenant_id = :tenant and count = 0',
    replace: 'from webhook_deliveries where tenant_id = :tenant and count >= 0',
  },
  {
    name: 'more-tests-than-said',
    by: ['simulate'],
    breaks:
      'A partner has more tests sent a minute than the guide says: a way to try out the ports of others.',
    find: 'export const TESTS_PER_MINUTE = 5',
    replace: 'export const TESTS_PER_MINUTE = 6',
  },
  {
    name: 'test-sent-while-standing-still',
    by: ['contract'],
    breaks:
      'A database that was put back sends to the addresses of that day, signed with secrets that may have been replaced since.',
    find: 'return { webhook, tests: tests.map(({ ended_at }) => instant(ended_at)), now: real } }, callOf(tenant)),',
    replace:
      'return { webhook, tests: tests.map(({ ended_at }) => instant(ended_at)), now: real } }, ofTenant(tenant)),',
  },
]
