// Calls to any of several services: what gets no answer, or is put off, is sent again, elsewhere, until it is settled.

import assert from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'
import type { Host } from './hosts.ts'

export type Answer = { status: number; body: unknown; startedAt: number; endedAt: number }

export type Calls = {
  /** One attempt: null when its outcome is unknown, because there was no answer or it was put off. */
  once: (method: string, path: string, body?: object, at?: Host) => Promise<Answer | null>
  /** The same call until it is answered. Throws when that takes too long. */
  settled: (method: string, path: string, body?: object, at?: Host) => Promise<Answer>
  counts: Record<'answered' | 'unanswered' | 'putOff', number>
}

/** A call that takes longer hangs: the limits of the service itself end before. */
const CALL_MAX_MS = 80_000
const SETTLED_MAX_MS = 120_000
const AGAIN_MS = 60
/** A connection that was closed while it was idle may meet a call on its way. */
const DISTURBED_MS = 2_000

export function createCalls(key: string, hosts: readonly Host[], random: () => number): Calls {
  const counts: Calls['counts'] = { answered: 0, unanswered: 0, putOff: 0 }
  const anyHost = (): Host => hosts[Math.floor(random() * hosts.length)] as Host

  const once: Calls['once'] = async (method, path, body, at = anyHost()) => {
    const startedAt = performance.now()
    let answer: Response
    let text: string
    try {
      answer = await fetch(`${at.url}/partner/v1${path}`, {
        method,
        headers: { authorization: `Bearer ${key}` },
        signal: AbortSignal.timeout(CALL_MAX_MS),
        ...(body && { body: JSON.stringify(body) }),
      })
      text = await answer.text()
    } catch (error) {
      const what = `${method} ${path} of ${at.name}`
      assert.notEqual((error as Error).name, 'TimeoutError', `${what}: no answer within ${CALL_MAX_MS} ms`)
      const isExplained = at.disturbedAt > startedAt - DISTURBED_MS
      assert.ok(isExplained, `${what}: dropped by a service that lives: ${(error as Error).cause ?? error}`)
      counts.unanswered += 1
      return null
    }
    assert.notEqual(answer.status, 500, `${method} ${path} of ${at.name}: ${text}`)
    if (answer.status === 503) {
      assert.match(answer.headers.get('retry-after') ?? '', /^\d+$/, text)
      counts.putOff += 1
      return null
    }
    counts.answered += 1
    return { status: answer.status, body: JSON.parse(text), startedAt, endedAt: performance.now() }
  }

  const settled: Calls['settled'] = async (method, path, body, at) => {
    const from = performance.now()
    for (let host = at; ; host = anyHost()) {
      const answer = await once(method, path, body, host)
      if (answer) return answer
      const waited = performance.now() - from
      assert.ok(waited < SETTLED_MAX_MS, `${method} ${path}: no outcome within ${Math.round(waited)} ms`)
      await pause(AGAIN_MS)
    }
  }

  return { once, settled, counts }
}
