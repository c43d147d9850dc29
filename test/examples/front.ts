// A proxy between a partner and the service that disturbs single calls as networks and proxies do.

import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import type { TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'

export type Call = { method: string; path: string; at: number }
/** `lose`: the service handles the call, and its answer never arrives. */
export type Move =
  | 'forward'
  | 'reset'
  | 'lose'
  | 'hang'
  | { status: number; headers?: Record<string, string>; body: string }

export type Front = {
  url: string
  calls: Call[]
  /** Decides about the next calls; all are forwarded until this is set. */
  onCall: (decide: (call: Call) => Move | Promise<Move>) => void
  /** Resolves with the next call that matches. */
  sees: (like: (call: Call) => boolean) => Promise<Call>
  /** Resolves when no call is in flight any more: a killed partner's last poll may still reach the service. */
  settled: () => Promise<void>
}

export const isPoll = ({ path }: Call): boolean => path.endsWith('/executions/due')
export const isConfirm = ({ path }: Call): boolean => path.endsWith('/confirm')

export async function startFront(t: TestContext, behind: string): Promise<Front> {
  const calls: Call[] = []
  let decide: (call: Call) => Move | Promise<Move> = () => 'forward'
  let underWay = 0
  const seen = new EventTarget()
  const server = createServer(async (request, response) => {
    const { method = '', url: path = '', headers, socket } = request
    const body = await buffer(request).catch(() => Buffer.alloc(0))
    const call = { method, path, at: performance.now() }
    calls.push(call)
    seen.dispatchEvent(new Event('call'))
    const move = await decide(call)
    if (move === 'reset') return void socket.destroy()
    if (move === 'hang') return
    if (typeof move === 'object') return void response.writeHead(move.status, move.headers).end(move.body)
    underWay++
    try {
      const answer = await fetch(behind + path, {
        method,
        headers: { authorization: headers.authorization ?? '' },
        ...(method === 'POST' && { body }),
      })
      const text = await answer.text()
      if (move === 'lose') return void socket.destroy()
      const told = ['x-due-remaining', 'x-error-code'].flatMap((name) => {
        const value = answer.headers.get(name)
        return value === null ? [] : [[name, value]]
      })
      response.writeHead(answer.status, Object.fromEntries(told)).end(text)
    } catch {
      // The service has ended: at the end of a test, while the last call may still be in flight.
      socket.destroy()
    } finally {
      underWay--
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.close()
    server.closeAllConnections()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    onCall: (next) => {
      decide = next
    },
    async sees(like) {
      for (let from = calls.length; ; from = calls.length) {
        await once(seen, 'call')
        const found = calls.slice(from).find(like)
        if (found) return found
      }
    },
    async settled() {
      const connected = promisify(server.getConnections.bind(server))
      while (underWay > 0 || (await connected()) > 0) await pause(5)
    },
  }
}
