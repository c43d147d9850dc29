// The append-only record of operators' changes, each entry written in the transaction of its change; and the latest
// results of jobs beside the scheduler.

import type { JobResult } from '../../core/findings.ts'
import type { Instant } from '../../core/time.ts'
import { auditEntryOf, auditParams } from '../rows/accounts.ts'
import { instant, instantOrNull, query } from '../statement.ts'
import type { AuditEntry, AuditFilter, AuditStore, ResultStore } from '../store.ts'
import { insertInto, type NewRow, type RowOf } from '../tables.ts'
import type { Base, Step, Tx } from '../transaction.ts'

export const ADD_AUDIT = query(insertInto('audit'))

/** The partner that an entry is about, by its detail or by the subject of its action. */
const LIST = query(({ field, firstWord }) => {
  const partner = `case
    when ${field('detail', 'partner_slug')} is not null then ${field('detail', 'partner_slug')}
    when action like 'key.%' then (
      select t.partner_slug from api_keys k join tenants t on t.tenant_id = k.tenant_id where k.key_id = subject)
    when action like 'execution.%' or action like 'trade.%' then (
      select t.partner_slug from executions e join tenants t on t.tenant_id = e.tenant_id where e.execution_id = subject)
    when action like 'tier.%' or action like 'database.%' then null
    -- What acts on a plan or a webhook names the partner first, then the environment.
    else (select p.partner_slug from partners p where p.partner_slug = ${firstWord('subject')})
  end`
  return `
    select *, ${partner} as partner_slug from audit
    where audit_id > :after and (cast(:since as bigint) is null or at >= :since)
      and (cast(:until as bigint) is null or at < :until) and (cast(:slug as text) is null or ${partner} = :slug)
    order by audit_id limit :limit`
}, auditEntryOf)
const ALL: AuditFilter = { since: null, until: null, slug: null }

/**
 * Adds an entry in the transaction of the change that it describes, near the end of that transaction. Entries are
 * numbered in the order of their commits, so a reader that continues after the last entry it saw misses none.
 */
export const addAudit = (tx: Tx, entry: AuditEntry, now: Instant): Step<unknown> =>
  tx.together(tx.turn('audit'), tx.run(ADD_AUDIT, auditParams(entry, now)))

export const createAuditStore = ({ look, write }: Base): AuditStore => ({
  addAuditEntry: (entry) =>
    write(function* (tx) {
      const { real } = yield* tx.times
      yield* addAudit(tx, entry, real)
    }),

  listAudit: ({ after, limit }, filter = ALL) =>
    look((tx) => tx.all(LIST, { ...filter, after: after ?? 0, limit })),
})

// Results of jobs: one row for each, replaced every time, to show the findings of a job that nobody watched.

const PUT_RESULT = query(
  `${insertInto('last_results')} on conflict (job, host) do update set
     at = excluded.at, ok = excluded.ok, well_at = coalesce(excluded.well_at, last_results.well_at),
     begins_at = excluded.begins_at, ends_at = excluded.ends_at, message = excluded.message, folder = excluded.folder,
     file = coalesce(excluded.file, last_results.file),
     file_host = case when excluded.file is null then last_results.file_host else excluded.file_host end`,
)
/** Matches `machine:port`: in ASCII, the semicolon follows the colon. */
const OF_MACHINE = `job = 'certificate' and host >= :machine || ':' and host < :machine || ';'`
const CERTIFICATES = query(`select 1 from last_results where ${OF_MACHINE} limit 1`)
const FORGET = query(`delete from last_results where ${OF_MACHINE}`)

const resultOf = ({ job, host, message, file, ...row }: RowOf<'last_results'>): JobResult => ({
  job: job as JobResult['job'],
  host,
  at: instant(row.at),
  ok: row.ok === 1n,
  wellAt: instantOrNull(row.well_at),
  beginsAt: instantOrNull(row.begins_at),
  endsAt: instantOrNull(row.ends_at),
  message,
  backups:
    row.folder === null
      ? null
      : { folder: row.folder, newest: file === null ? null : { file, host: row.file_host } },
})
const OF_JOB = query('select * from last_results where job = :job and host = :host', resultOf)
export const RESULTS = query('select * from last_results order by job, host', resultOf)

/** A list of findings may be long, and running the job again shows all of it. */
const MESSAGE_MAX = 300

export const createResultStore = ({ look, write }: Base): ResultStore => ({
  noteResult: ({ job, host, ok, beginsAt = null, endsAt, message, backups }) =>
    write(function* (tx) {
      const at = yield* tx.present
      const row: NewRow<'last_results'> = {
        job,
        host,
        at,
        ok: ok ? 1 : 0,
        well_at: ok ? at : null,
        begins_at: beginsAt,
        ends_at: endsAt,
        message: [...message].slice(0, MESSAGE_MAX).join(''),
        folder: backups?.folder ?? null,
        file: backups?.newest?.file ?? null,
        file_host: backups?.newest?.host ?? null,
      }
      yield* tx.run(PUT_RESULT, row)
    }),

  findResult: async (job, host) => (await look((tx) => tx.get(OF_JOB, { job, host }))) ?? null,

  async forgetCertificates(machine) {
    // Usually there is nothing to remove, which then costs no commit.
    if (await look((tx) => tx.get(CERTIFICATES, { machine })))
      await write((tx) => tx.run(FORGET, { machine }))
  },
})
