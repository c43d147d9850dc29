// A client that sends exactly the bytes it is given, one call at a time over one connection, and opens another one when
// the service ends it.

import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { type Answer, takeAnswer } from './answers.ts'

/** Above every time limit of the service on a call that is sent in one piece. */
const ANSWER_MS = 20_000

export type Client = {
  /** Resolves with the answer; rejects when there is none in time, or what comes is not HTTP. */
  send: (bytes: Uint8Array, isHead?: boolean) => Promise<Answer>
  close: () => void
}

export function createClient(url: string): Client {
  const { hostname, port } = new URL(url)
  let socket: Socket | null = null

  async function connected(): Promise<Socket> {
    if (socket && !socket.destroyed && socket.readable && socket.writable) return socket
    socket?.destroy()
    socket = connect({ host: hostname, port: Number(port), noDelay: true }).setEncoding('latin1')
    await once(socket, 'connect')
    socket.on('error', () => {})
    return socket
  }

  return {
    async send(bytes, isHead = false) {
      const here = await connected()
      try {
        const answer = await exchange(here, bytes, isHead)
        if (answer.headers.get('connection') === 'close') here.destroy()
        return answer
      } catch (error) {
        here.destroy()
        throw error
      }
    },
    close: () => void socket?.destroy(),
  }
}

function exchange(socket: Socket, bytes: Uint8Array, isHead: boolean): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>()
  let received = ''
  const take = (text: string): void => {
    received += text
    try {
      for (;;) {
        const taken = takeAnswer(received, isHead)
        if (!taken) return
        received = taken.rest
        // "100 Continue" only says that the body may come.
        if (taken.answer.status < 200) continue
        if (received !== '')
          throw new Error(`more than one answer: ${JSON.stringify(received.slice(0, 200))}`)
        resolve(taken.answer)
        return
      }
    } catch (error) {
      reject(error)
    }
  }
  const end = (): void =>
    reject(new Error(`the connection ended without an answer: ${JSON.stringify(received)}`))
  const timer = setTimeout(() => reject(new Error(`no answer for ${ANSWER_MS} ms`)), ANSWER_MS)
  socket.on('data', take).on('end', end).on('close', end)
  socket.write(bytes)
  return promise.finally(() => {
    clearTimeout(timer)
    socket.off('data', take).off('end', end).off('close', end)
  })
}
