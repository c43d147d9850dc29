// webhook listen: the wake-ups of a partner, produced on its developer's machine. It reads from the service, signs as
// the service would, and forwards to an address that the service itself could not reach.

import { setTimeout as pause } from 'node:timers/promises'
import type { ExecutionId } from '../../core/execution.ts'
import type { Environment } from '../../core/partner.ts'
import { reasonInWords, usage } from '../../core/problem.ts'
import { visible } from '../../core/text.ts'
import { formatInstant, type Instant, LATEST, MINUTE_MS, parseInstant } from '../../core/time.ts'
import { SECRET_BYTES, secretOf } from '../../core/webhook.ts'
import { UNGUARDED } from '../../webhook/address-guard.ts'
import { createSend } from '../../webhook/send.ts'
import type { Send } from '../../webhook/wake-partners.ts'
import type { Cli } from '../context.ts'
import { EXIT } from '../exit-codes.ts'
import { givenSecret, readKeyFile } from '../input-file.ts'
import { WAITS_S } from '../options.ts'
import { note, print, renderFields, stopGently, warn } from '../terminal.ts'

export type ListenOptions = {
  url: string
  keyFile: string
  forwardTo: string
  secretFile?: string
  every: number
  webhookCa?: string
  webhookHeaderPrefix: string
}

type Me = { partner_slug: string; environment: Environment }

export async function listen(cli: Cli, options: ListenOptions): Promise<void> {
  const given = givenSecret(options.secretFile)
  const secret = given ?? secretOf(cli.machine.random(SECRET_BYTES))
  const send = sender(options)
  const key = readKeyFile(options.keyFile)
  const stop = stopGently(() => process.exit(EXIT.interrupted))
  const tally = { forwarded: 0, failed: 0 }
  try {
    const { signal } = stop
    const reader = createReader({
      url: options.url,
      key,
      signal,
      chance: () => (cli.machine.random(1)[0] ?? 0) / 256,
      onTrouble: (text) => warn(cli, text),
      onRecovery: () => note(cli, 'The service answers again.'),
    })
    // Without retries: the person who has just typed the address and the key is still watching.
    const me = (await reader.once('/me')) as Me
    const readFresh = await follow(reader.once)
    tellBegin(cli, me, { forward_to: options.forwardTo, secret: given === null ? secret : null })
    for (;;) {
      await pause(options.every, undefined, { signal })
      const fresh = await reader.patiently(readFresh)
      if (fresh.length === 0) continue
      const outcome = await attempt(send, me, { url: options.forwardTo, secret }, fresh)
      tally[outcome.delivered ? 'forwarded' : 'failed'] += 1
      print(cli, outcome, () => visible(inWords(outcome)))
    }
  } catch (error) {
    if (!stop.signal.aborted) throw error
  } finally {
    stop.release()
  }
  note(cli, `Wake-ups: ${tally.forwarded} forwarded, ${tally.failed} failed.`)
  cli.exitWith(EXIT.interrupted)
}

/** A generated secret is shown only here. */
function tellBegin(cli: Cli, me: Me, what: { forward_to: string; secret: string | null }): void {
  const begun = { partner_slug: me.partner_slug, environment: me.environment, ...what }
  print(cli, begun, () => renderFields({ ...begun, secret: what.secret ?? 'the one given' }))
  note(cli, 'Waiting for executions; Ctrl-C ends it.')
}

/** Sends one wake-up for all executions of a look, without a second attempt: a receiver must cope with lost ones. */
async function attempt(
  send: Send,
  { partner_slug, environment }: Me,
  webhook: { url: string; secret: string },
  fresh: Listed[],
) {
  const [first] = fresh
  if (!first) throw new Error('there is nothing to announce')
  const { execution_id: earliest, created_at } = first
  const started = performance.now()
  const tenant = { partnerSlug: partner_slug, environment }
  const { statusCode, reason } = await send({ tenant, count: fresh.length, earliest, webhook })
  return {
    created_at,
    count: fresh.length,
    earliest_execution_id: earliest,
    delivered: reason === null,
    status_code: statusCode,
    reason,
    duration_ms: Math.round(performance.now() - started),
  }
}

const inWords = (outcome: Awaited<ReturnType<typeof attempt>>): string => {
  const { created_at, earliest_execution_id, count, status_code, reason, duration_ms } = outcome
  const end = reason === null ? `answered ${status_code} in ${duration_ms} ms` : `NOT delivered: ${reason}`
  return `${created_at} ${earliest_execution_id} count ${count} ${end}`
}

/** Sends with the code of the service, except the guard against private addresses. */
function sender({ webhookHeaderPrefix: headerPrefix, webhookCa }: ListenOptions): Send {
  try {
    return createSend({ guard: UNGUARDED, headerPrefix, caFile: webhookCa ?? null })
  } catch (error) {
    throw usage(`--webhook-ca: ${(error as Error).message}`)
  }
}

// New executions of a partner, read from the list and never by polling: listing leases nothing, so the partner's own
// poller gets every instruction.

type Listed = { execution_id: ExecutionId; created_at: string }
type Page = { as_of: string; executions: Listed[]; next_cursor: string | null }

const EXECUTION_ID = /^exec_[0-9a-f]{32}$/

/** Throws when an answer is not a page of executions: another program may listen at the address. */
function pageOf(answer: unknown): Page {
  const { as_of, executions, next_cursor } = Object(answer) as Page
  const isPage =
    parseInstant(String(as_of)).ok &&
    Array.isArray(executions) &&
    executions.every((one) => EXECUTION_ID.test(Object(one).execution_id))
  if (!isPage) throw new Refused('The service answers, but not with a list of executions.')
  return { as_of, executions, next_cursor }
}

/** How much earlier than its commit a pass may have dated its executions. */
const LATE_MS = 5 * MINUTE_MS

/**
 * Follows the list from now on: present executions are not fresh. Returns what reads the executions since its last
 * call, oldest first. After a failure the next call has them all.
 */
export async function follow(get: (path: string) => Promise<unknown>): Promise<() => Promise<Listed[]>> {
  // The list is empty from the last possible instant on, and the answer gives the service's time.
  const { as_of } = pageOf(await get(`/executions?limit=1&since=${formatInstant(LATEST)}`))
  const since = formatInstant((Date.parse(as_of) - LATE_MS) as Instant)
  /** The beginning of the last page, and the executions on it: the next look begins there again. */
  let place = `since=${since}`
  let passed = new Set<string>()
  const found: Listed[] = []

  async function fresh(): Promise<Listed[]> {
    for (;;) {
      const { executions, next_cursor } = pageOf(await get(`/executions?${place}`))
      found.push(...executions.filter(({ execution_id }) => !passed.has(execution_id)))
      passed = new Set(next_cursor === null ? executions.map(({ execution_id }) => execution_id) : [])
      if (next_cursor === null) break
      place = `cursor=${next_cursor}`
    }
    return found.splice(0)
  }
  await fresh()
  return fresh
}

// Reads from a service as its partner: after a temporary error it tries again, and a permanent one ends the command.

const ANSWER_MS = 30_000
/** Many times what the longest page takes. */
const ANSWER_BYTES_MAX = 8 * 1024 * 1024
/** The longest wait, whatever a service asks for: a timer would not wait any longer time at all. */
const WAIT_MAX_S = 3_600

/** The service has answered, and would answer the same again. */
export class Refused extends Error {}

/** The service could not be reached, or cannot answer at present. */
class NotNow extends Error {
  readonly afterS: number

  constructor(message: string, afterS = 0) {
    super(message)
    this.afterS = afterS
  }
}

type Options = {
  url: string
  key: string
  /** 0 to 1: shortens a wait by up to half, so that many listeners do not come back at the same instant. */
  chance: () => number
  signal: AbortSignal
  /** Called with the reason and the seconds until the next try. */
  onTrouble: (text: string) => void
  onRecovery: () => void
}

export function createReader({ url, key, signal, chance, onTrouble, onRecovery }: Options) {
  return {
    /** One answer to GET, as JSON. Throws Refused, and anything else for what may pass. */
    async once(path: string): Promise<unknown> {
      const response = await fetch(`${url}/partner/v1${path}`, {
        headers: { authorization: `Bearer ${key}` },
        redirect: 'manual',
        signal: AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)]),
      }).catch((error) => {
        throw new NotNow(`The service at ${url} cannot be reached: ${reasonOf(error)}`)
      })
      const text = await textOf(response)
      const { status, headers } = response
      const said = `The service at ${url} answered ${status}: ${detailOf(text)}`
      if (status === 408 || status === 429 || status >= 500)
        throw new NotNow(said, Number(headers.get('retry-after') ?? 0) || 0)
      const body = status === 200 ? parsed(text) : undefined
      if (body === undefined) throw new Refused(said)
      return body
    },

    /** Runs `read` until it succeeds or is refused. Throws Refused, and anything once `signal` is aborted. */
    async patiently<T>(read: () => Promise<T>): Promise<T> {
      for (let tries = 0; ; tries++) {
        try {
          const answer = await read()
          if (tries > 0) onRecovery()
          return answer
        } catch (error) {
          if (error instanceof Refused || signal.aborted) throw error
          const usual = (WAITS_S[tries] ?? WAITS_S.at(-1) ?? 0) * (1 - chance() / 2)
          const wait = Math.max(usual, error instanceof NotNow ? Math.min(error.afterS, WAIT_MAX_S) : 0)
          onTrouble(`${(error as Error).message}; trying again in ${Math.ceil(wait)} s`)
          await pause(wait * 1_000, undefined, { signal })
        }
      }
    },
  }
}

/** Throws NotNow for an incomplete answer, and Refused for one that does not end. */
async function textOf({ body, url }: Response): Promise<string> {
  const { origin } = new URL(url)
  const chunks: Uint8Array[] = []
  let size = 0
  try {
    for await (const chunk of body ?? []) {
      size += chunk.byteLength
      if (size > ANSWER_BYTES_MAX) break
      chunks.push(chunk)
    }
  } catch (error) {
    throw new NotNow(`The answer of ${origin} broke off: ${reasonOf(error)}`)
  }
  if (size <= ANSWER_BYTES_MAX) return Buffer.concat(chunks).toString('utf8')
  throw new Refused(`The answer of ${origin} is longer than ${ANSWER_BYTES_MAX} bytes.`)
}

/** The error of `fetch` says only that it failed; its cause says why. */
function reasonOf(error: unknown): string {
  const { message, cause } = error as Error
  return cause instanceof Error ? reasonInWords(cause) : message
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The sentence of a refusal; for an answer that is not ours, its beginning. */
function detailOf(text: string): string {
  const { detail } = Object(parsed(text)) as { detail?: unknown }
  return typeof detail === 'string' ? detail : text.slice(0, 200)
}
