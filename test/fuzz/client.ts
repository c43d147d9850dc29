// A client that sends exactly the bytes it is given, one call at a time over one connection, and opens another one when
// the service ends it.

import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { type Answer, takeAnswer } from './answers.ts'

/** Above every time limit of the service on a call that is sent in one piece. */
const ANSWER_MS = 20_000

export type Sending = {
  isHead?: boolean
  /** Sends the same bytes so many times, ahead of the answers. */
  times?: number
}
export type Client = {
  /**
   * Resolves with the answers, fewer than were sent only when the last one says that the connection is closed. Rejects
   * when they do not come in time, or what comes is not HTTP.
   */
  send: (bytes: Uint8Array, sending?: Sending) => Promise<Answer[]>
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
    async send(bytes, sending = {}) {
      const here = await connected()
      try {
        const answers = await exchange(here, bytes, sending)
        if (isLast(answers.at(-1))) here.destroy()
        return answers
      } catch (error) {
        here.destroy()
        throw error
      }
    },
    close: () => void socket?.destroy(),
  }
}

const isLast = (answer?: Answer): boolean => answer?.headers.get('connection') === 'close'

function exchange(
  socket: Socket,
  bytes: Uint8Array,
  { isHead = false, times = 1 }: Sending,
): Promise<Answer[]> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer[]>()
  const answers: Answer[] = []
  let received = ''
  const take = (text: string): void => {
    received += text
    try {
      for (let taken = takeAnswer(received, isHead); taken; taken = takeAnswer(received, isHead)) {
        received = taken.rest
        // "100 Continue" only says that the body may come.
        if (taken.answer.status >= 200) answers.push(taken.answer)
      }
      if (answers.length < times && !isLast(answers.at(-1))) return
      if (received !== '' || answers.length > times) throw new Error(`more than was asked for: ${received}`)
      resolve(answers)
    } catch (error) {
      reject(error)
    }
  }
  const end = (): void =>
    reject(new Error(`the connection ended without an answer: ${JSON.stringify(received)}`))
  const timer = setTimeout(() => reject(new Error(`no answer for ${ANSWER_MS} ms`)), ANSWER_MS)
  socket.on('data', take).on('end', end).on('close', end)
  socket.write(times === 1 ? bytes : Buffer.concat(Array.from({ length: times }, () => bytes)))
  return promise.finally(() => {
    clearTimeout(timer)
    socket.off('data', take).off('end', end).off('close', end)
  })
}
