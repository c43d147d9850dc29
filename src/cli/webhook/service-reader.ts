// Reads from a service as its partner, patiently: an error that may pass is tried again, one that will not ends the
// command.

import { setTimeout as pause } from 'node:timers/promises'
import { WAITS_S } from './retry-waits.ts'

const ANSWER_MS = 30_000
/** Many times what the longest page takes. */
const ANSWER_BYTES_MAX = 8 * 1024 * 1024
/** However long a service asks for: more than a timer holds would be no wait at all. */
const WAIT_MAX_S = 3_600

/** The service has answered, and would answer the same again. */
export class Refused extends Error {}

/** It could not be asked, or cannot answer for the time being. */
class NotNow extends Error {
  readonly afterS: number

  constructor(message: string, afterS = 0) {
    super(message)
    this.afterS = afterS
  }
}

export type Reader = {
  /** One answer to GET, as JSON. Throws Refused, and anything else for what may pass. */
  once: (path: string) => Promise<unknown>
  /** Runs `read` until it succeeds or is refused. Throws Refused, and anything once `signal` is aborted. */
  patiently: <T>(read: () => Promise<T>) => Promise<T>
}

type Options = {
  url: string
  key: string
  /** From 0 to 1, by how much to shorten a wait: many listeners must not come back at the same instant. */
  chance: () => number
  /** Ends what is under way. */
  signal: AbortSignal
  /** Called with the reason and the seconds until the next try; and again once it works. */
  onTrouble: (text: string) => void
  onRecovery: () => void
}

export function createReader({ url, key, signal, chance, onTrouble, onRecovery }: Options): Reader {
  return {
    async once(path) {
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

    async patiently(read) {
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

/** Empty for an answer that breaks off. Throws Refused for one that does not end. */
async function textOf({ body, url }: Response): Promise<string> {
  const chunks: Uint8Array[] = []
  let size = 0
  try {
    for await (const chunk of body ?? []) {
      size += chunk.byteLength
      if (size > ANSWER_BYTES_MAX) break
      chunks.push(chunk)
    }
  } catch {
    return ''
  }
  if (size <= ANSWER_BYTES_MAX) return Buffer.concat(chunks).toString('utf8')
  throw new Refused(`The answer of ${new URL(url).origin} is longer than ${ANSWER_BYTES_MAX} bytes.`)
}

/** `fetch` says only that it failed; the cause says why. */
function reasonOf(error: unknown): string {
  const { message, cause } = error as Error
  return cause instanceof Error ? cause.message || String((cause as NodeJS.ErrnoException).code) : message
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
