// Makes wire attacks, and holds what comes back against what may: answers to the calls that were sent, in their order,
// and nothing hidden in another call. Meanwhile somebody else's call is answered as ever.

import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { head } from '../http/raw.ts'
import { type Answer, allAnswers } from './answers.ts'
import { createClient } from './client.ts'
import type { Player, Target } from './target.ts'
import { type Attack, applySlip, doubtful, inChunks, type Message } from './wire.ts'

const ME = '/partner/v1/me'
const USERS = '/partner/v1/users'
/** Above every time limit of the service on what has not come whole. */
const OVER_MS = 45_000

/** Attacks one after the other. `note` is told of every answer. */
export type Attacks = { play: (attack: Attack) => Promise<void> }

export function createAttacks(
  { served, store }: Target,
  { test: { key, tag, tenant } }: Player,
  note: (what: string, status: number) => void,
): Attacks {
  let count = 0
  /** Of the call that is hidden in another one. */
  const smuggledId = (): string => `${tag}-${count}-smuggled`

  /** The text of a message. What its last call would do if it were one must never be done. */
  function write(message: Message, id: string): string {
    const named = [`X-Request-Id: ${id}`]
    const json = userJson(id)
    switch (message.kind) {
      case 'me':
        return head('GET', ME, key, named)
      case 'link':
        return message.chunks === null
          ? head('POST', USERS, key, [...named, `Content-Length: ${json.length}`]) + json
          : head('POST', USERS, key, [...named, 'Transfer-Encoding: chunked']) +
              inChunks(json, message.chunks)
      case 'doubtful': {
        const hidden = userJson(smuggledId())
        const { lines, body } = doubtful(message.doubt, json)
        const smuggled = head('POST', USERS, key, [
          `X-Request-Id: ${smuggledId()}`,
          `Content-Length: ${hidden.length}`,
        ])
        return head('POST', USERS, key, [...named, ...lines]) + body + smuggled + hidden
      }
      case 'rubbish':
        return message.text
    }
  }

  async function attack({ messages, slips, pieces, leave }: Attack): Promise<void> {
    const ids = messages.map((_, at) => `${tag}-${count}-${at}`)
    const text = messages.map((message, at) => write(message, ids[at] ?? '')).join('')
    const answersDue = slips.length > 0 || leave === 'reset' ? 0 : soundBefore(messages)
    const received = await send(served.url, slips.reduce(applySlip, text), { pieces, leave, answersDue })
    // What is cut off by the client's own reset proves nothing of the service.
    const answers = leave === 'reset' ? [] : allAnswers(received).filter(({ status }) => status >= 200)
    for (const { status } of answers) {
      note('wire', status)
      assert.ok(status < 500, `it is answered ${status}`)
    }
    if (slips.length > 0) return
    if (leave === 'end') assertInOrder(messages, ids, answers)
    assert.equal(
      await store.findUser(tenant, smuggledId()),
      null,
      'what was hidden in another call is not done',
    )
  }

  /** Somebody else's call, over a connection of its own. */
  async function bystand(): Promise<void> {
    const client = createClient(served.url)
    const id = `${tag}-bystander-${count}`
    const [answer] = await client.send(Buffer.from(head('GET', ME, key, [`X-Request-Id: ${id}`])))
    assert.ok(answer)
    client.close()
    note('bystander', answer.status)
    assert.deepEqual([answer.status, answer.headers.get('x-request-id')], [200, id])
    assert.equal(JSON.parse(answer.body).partner_slug, tenant.partnerSlug)
  }

  return {
    async play(planned) {
      count += 1
      try {
        await Promise.all([attack(planned), bystand()])
      } catch (error) {
        throw new Error(`${JSON.stringify(planned)}\n${String(error)}`)
      }
    },
  }
}

const userJson = (id: string): string =>
  JSON.stringify({
    partner_user_id: id,
    consent_accepted: true,
    consent_version: '1',
    consent_timestamp: '2026-01-05T00:00:00Z',
  })

/** How many messages come before the first that is not a sound call. */
function soundBefore(messages: readonly Message[]): number {
  const first = messages.findIndex(({ kind }) => kind === 'doubtful' || kind === 'rubbish')
  return first < 0 ? messages.length : first
}

/**
 * Every sound call before the first that is not is answered as itself; that one is refused, and ends the connection.
 */
function assertInOrder(
  messages: readonly Message[],
  ids: readonly string[],
  answers: readonly Answer[],
): void {
  const soundCount = soundBefore(messages)
  const shown = () =>
    answers.map(({ status, headers }) => `${status} ${headers.get('x-request-id')}`).join(', ')
  for (let at = 0; at < soundCount; at++) {
    const answer = answers[at]
    assert.deepEqual([answer?.status, answer?.headers.get('x-request-id')], [200, ids[at]], shown())
    if (messages[at]?.kind === 'link') assert.equal(JSON.parse(answer?.body ?? '').partner_user_id, ids[at])
  }
  const rest = answers.slice(soundCount)
  if (messages[soundCount]?.kind !== 'doubtful') return
  assert.equal(rest.length, 1, `one refusal, and nothing behind it: ${shown()}`)
  assert.ok([400, 413].includes(rest[0]?.status ?? 0), shown())
}

type Sending = Pick<Attack, 'pieces' | 'leave'> & { answersDue: number }

/**
 * Resolves with all that came back, once the connection is over. The client ends its side when as many answers are in
 * as are due: one that ends it before is not answered.
 */
function send(url: string, text: string, { pieces, leave, answersDue }: Sending): Promise<string> {
  const { hostname, port } = new URL(url)
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true }).setEncoding('latin1')
  let received = ''
  let isSent = false
  const endWhenAnswered = (): void => {
    if (isSent && received.split('HTTP/1.1 ').length > answersDue && socket.writable) socket.end()
  }
  socket.on('data', (more) => {
    received += more
    endWhenAnswered()
  })
  socket.on('error', () => {}).on('end', () => socket.destroy())
  socket.on('close', () => resolve(received))
  const over = new Error(`the connection is not over after ${OVER_MS} ms`)
  const timer = setTimeout(() => reject(over), OVER_MS)
  const write = async (): Promise<void> => {
    const bytes = Buffer.from(text, 'latin1')
    const step = Math.max(1, Math.ceil(bytes.length / pieces))
    for (let at = 0; at < bytes.length && socket.writable; at += step) {
      socket.write(bytes.subarray(at, at + step))
      await turn()
    }
    isSent = true
    if (leave === 'reset') socket.resetAndDestroy()
    else endWhenAnswered()
  }
  socket.once('connect', () => void write())
  return promise.finally(() => {
    clearTimeout(timer)
    socket.destroy()
  })
}
