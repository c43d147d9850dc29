// Planted bugs in partners, keys, users and plans as they are looked up, changed, disabled and erased.

import type { Row } from '../rows.ts'

export const ACCOUNTS: readonly Row[] = [
  {
    name: 'plan-of-any-tenant',
    by: ['contract'],
    breaks:
      'A plan is looked up by its name alone. A partner who reuses the name rewrites the plan of another one.',
    find: '${SELECT_PLAN} where p.tenant_id = :tenant and p.partner_plan_id = :partner_plan_id',
    replace: '${SELECT_PLAN} where p.partner_plan_id = :partner_plan_id',
  },
  {
    name: 'users-of-every-tenant',
    by: ['contract'],
    breaks: 'The listing of users shows those of every tenant: personal data of strangers.',
    find: '${SELECT_LISTED} and u.user_id > :after order by u.user_id limit :limit',
    replace: '${SELECT_LISTED} or u.user_id > :after order by u.user_id limit :limit',
  },
  {
    name: 'user-id-not-unique',
    by: ['contract'],
    on: 'postgres',
    breaks:
      'A user whom two hosts link at once becomes two. A disable then stops the plans of one of them, and the other goes on buying.',
    find: 'unique (tenant_id, partner_user_id)',
    replace: 'unique (tenant_id, partner_user_id, user_id)',
    in: 'postgres',
  },
  {
    name: 'key-hash-not-unique',
    by: ['contract'],
    breaks:
      'Nothing in the file keeps two keys from having one secret. A revoked key could still open the door under the other name.',
    find: 'key_sha256 text not null unique check (length(key_sha256) = 64)',
    replace: 'key_sha256 text not null check (length(key_sha256) = 64)',
  },
  {
    name: 'disable-forgets-paused-plans',
    by: ['contract', 'simulate'],
    breaks:
      'A disable passes over plans that are paused. Their open executions are still delivered for a user who has left.',
    find: 'from plans where user_id = :user_id and plan_id > :after order by plan_id limit :limit`',
    replace:
      "from plans where user_id = :user_id and plan_id > :after and status = 'active' order by plan_id limit :limit`",
  },
  {
    name: 'disable-leaves-plans-awake',
    by: ['contract', 'simulate'],
    breaks: 'A disable leaves the schedules in the due set. The next pass buys for a user who has left.',
    find: 'tx.run(SLEEP, plans),',
    replace: '',
  },
  {
    name: 'disable-of-the-first-page',
    by: ['contract'],
    breaks:
      'A disable ends with its first page of plans. A user with many plans goes on buying with the rest.',
    find: [
      'const last = rows.length < PLANS_PER_PAGE ? null : (rows.at(-1)?.plan_id ?? null)',
      'return { plansPaused, executionsCancelled, last }',
    ],
    replace: 'return { plansPaused, executionsCancelled, last: null }',
  },
  {
    name: 'consents-not-kept',
    by: ['contract'],
    breaks:
      'Only the first consent of a user is kept. There is no evidence of what the user agreed to later.',
    find: 'tx.run(KEEP_CONSENT, consentParams(user, userId, now)),',
    replace: 'tx.when(row === undefined, () => tx.run(KEEP_CONSENT, consentParams(user, userId, now))),',
  },
  {
    name: 'erase-leaves-the-email',
    by: ['contract'],
    breaks: 'An erasure clears the provider and leaves the e-mail, though the user was told that it is gone.',
    find: ["...intact('users', row),", 'email: null'],
    replace: "...intact('users', row)",
  },
  {
    name: 'hold-does-not-reach-the-plans',
    by: ['contract'],
    breaks:
      'A hold of a partner leaves its plans in the due set. They go on buying while an operator believes them stopped.',
    find: 'tx.when(status !== before.status || held !== before.held, () => tx.run(WAKE, { slug }))',
    replace: 'tx.when(status !== before.status, () => tx.run(WAKE, { slug }))',
  },
  {
    name: 'minimum-only-for-new-windows',
    by: ['contract'],
    breaks:
      'A new minimum tranche does not reach windows that are open. A venue refuses instructions under its minimum.',
    find: 'tx.when(minTranche !== before.minTranche, () => tx.run(SET_FLOOR, { slug, min_tranche: minTranche })),',
    replace: '',
  },
  {
    name: 'revoked-key-still-usable',
    by: ['contract'],
    breaks:
      'The revocation of a key is audited and not stored. Anyone who has the key goes on buying with it.',
    find: 'revoked_at: revokedAt,',
    replace: '',
  },
  {
    name: 'key-cached',
    by: ['contract'],
    breaks:
      'A key that was found once is remembered. A revocation by another process is not seen until a restart.',
    find: 'if (now !== seenVersion || known.size >= most) known.clear()',
    replace: 'if (seenVersion === undefined || known.size >= most) known.clear()',
  },
  {
    name: 'key-of-the-other-environment',
    by: ['contract'],
    breaks:
      'The keys of a partner are listed for its live environment only. A test key that leaked is not seen, and never revoked.',
    find: '${SELECT_KEY} where t.partner_slug = :slug order by k.created_at, k.key_id',
    replace:
      "${SELECT_KEY} where t.partner_slug = :slug and t.environment = 'live' order by k.created_at, k.key_id",
  },
  {
    name: 'reset-reaches-live-rows',
    by: ['contract'],
    breaks:
      'A reset of a sandbox removes the windows of other tenants, live ones included: their ledger is gone.',
    find: "['windows', 'plan_id in (select plan_id from plans where tenant_id = :tenant)']",
    replace: "['windows', 'plan_id in (select plan_id from plans where tenant_id >= :tenant)']",
  },
  {
    name: 'page-skips-a-row',
    by: ['contract'],
    breaks:
      'A page of plans leaves out the plan behind the cursor. An operator does not see that it goes on buying.',
    find: '${SELECT_LISTED} where p.plan_id > :after and ${OF_TENANT} order by p.plan_id limit :limit',
    replace:
      '${SELECT_LISTED} where p.plan_id > :after + case when :after > 0 then 1 else 0 end and ${OF_TENANT} order by p.plan_id limit :limit',
  },
  {
    name: 'key-judged-by-the-clock',
    by: ['contract'],
    breaks:
      'A key is judged by the clock of the machine. Set back, it brings a key that has ended to life again.',
    find: 'createKeyFinder({ db, present, look }: Connection',
    replace: 'createKeyFinder({ db, clock: present, look }: Connection',
  },
  {
    name: 'disabled-partner-stays-awake',
    by: ['contract'],
    breaks: 'The plans of a disabled partner stay in the due set: they go on buying.',
    find: "case when p.status = 'active' and p.smart_timing_enabled = 1 and r.status = 'active'",
    replace: "case when p.status = 'active' and p.smart_timing_enabled = 1",
  },
  {
    name: 'own-revocation-unnoticed',
    by: ['contract'],
    breaks:
      'A key that is remembered is not forgotten when this very process revokes it. It goes on buying until somebody else writes.',
    find: ['const { key, successor } = decide(keyOf(row), time)', 'forget()'],
    replace: 'const { key, successor } = decide(keyOf(row), time)',
  },
  {
    name: 'own-disable-unnoticed',
    by: ['contract'],
    breaks:
      'A partner that this process disables is still let in by every key it remembers, until somebody else writes.',
    find: ['partner.minTranche !== before.minTranche', 'forget()'],
    replace: 'partner.minTranche !== before.minTranche',
  },
  {
    name: 'plans-of-every-tenant',
    by: ['contract'],
    breaks: 'A partner reads the plans of all other partners together with its own.',
    find: 'where p.tenant_id = :tenant`',
    replace: 'where :tenant = :tenant`',
  },
  {
    name: 'stops-one-by-one',
    by: ['contract'],
    breaks:
      'Of the stops of a large sandbox that are to be taken together, the first is taken: one step for each.',
    find: 'select max(at) as at from stops where at < ${NEVER} and at <= (select min(at) from stops) + :together',
    replace:
      'select min(at) as at from stops where at < ${NEVER} and at <= (select min(at) from stops) + :together',
  },
  {
    name: 'stop-of-a-linked-user',
    by: ['contract'],
    breaks:
      'A stop that the disk has brought back pauses the plans of a user who is linked. They buy nothing any more, and nobody asked for that.',
    find: [
      'const UNDER_WAY = `stops.ended_at is null and exists (',
      "  select 1 from users u where u.user_id = stops.user_id and u.status = 'disabled')`",
    ],
    replace: 'const UNDER_WAY = `stops.ended_at is null`',
  },
  {
    name: 'key-cached-after-revocation',
    by: ['simulate'],
    breaks:
      'The service remembers a key once it has seen it. After its revocation the key goes on buying until a restart.',
    edits: [
      {
        find: 'const HEADER = /^Bearer (\\S+)$/',
        replace: ['const HEADER = /^Bearer (\\S+)$/', 'const known = new Map<string, KeyFacts>()'],
      },
      {
        find: 'const facts = isWellFormedKey(key) ? await store.findKey(keyHash(key), { atOnce }) : null',
        replace:
          'const facts = isWellFormedKey(key) ? (known.get(key) ?? (await store.findKey(keyHash(key), { atOnce }))) : null',
      },
      {
        find: 'if (facts === null) throw INVALID_KEY',
        replace: ['if (facts === null) throw INVALID_KEY', 'known.set(key, facts)'],
      },
    ],
  },
  {
    name: 'server-disable-leaves-plans-awake',
    by: ['simulate'],
    on: 'postgres',
    breaks:
      'On a server a disable leaves the schedules in the due set. The next pass buys for a user who has left.',
    find: 'tx.run(SLEEP, plans),',
    replace: '',
  },
  {
    name: 'users-of-a-page-twice',
    by: ['contract'],
    breaks:
      'A page of users begins with the last one of the page before. A partner that counts its users counts too many.',
    find: 'where tenant_id = :tenant and partner_user_id > :after order by partner_user_id limit :limit',
    replace: 'where tenant_id = :tenant and partner_user_id >= :after order by partner_user_id limit :limit',
  },
  {
    name: 'newest-consents-left-out',
    by: ['contract'],
    breaks:
      'Of a user with very many consents the newest are not shown: the evidence that somebody asks for.',
    find: 'order by received_at desc, consent_id desc limit :limit',
    replace: 'order by received_at, consent_id limit :limit',
  },
]
