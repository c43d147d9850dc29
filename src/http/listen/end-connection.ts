// How a connection ends on our side without taking its last answer with it.

import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'

/** How long a client that is still sending may do so before it is cut off, and how much it may send. */
const LEAVE_MS = 2_000
const LEAVE_BYTES_MAX = 1024 * 1024
const LEAVE_CHECK_MS = 50

const leaving = new WeakSet<Duplex>()

/** Whether the connection has had its last answer. */
export const isLeaving = (socket: Duplex): boolean => leaving.has(socket)

/**
 * Ends our side once everything is written, and the connection when the client ends its side. What it sends meanwhile
 * is thrown away: closing with bytes unread would reset the connection, and with it the answer on its way.
 */
export function takeLeave(socket: Socket): void {
  if (leaving.has(socket)) return
  leaving.add(socket)
  socket.resume()
  socket.end(() => {
    const from = socket.bytesRead
    let checksLeft = LEAVE_MS / LEAVE_CHECK_MS
    const check = setInterval(() => {
      checksLeft -= 1
      if (checksLeft <= 0 || socket.bytesRead - from > LEAVE_BYTES_MAX) socket.destroy()
      if (socket.destroyed) clearInterval(check)
    }, LEAVE_CHECK_MS)
  })
}

/** Answers what is not HTTP, which no route can, in the form of every other refusal, and ends the connection. */
export function refuse(socket: Socket, status: string, requestId: string): void {
  const body = JSON.stringify({ detail: status.slice(4) })
  const head = [
    `HTTP/1.1 ${status}`,
    'Content-Type: application/json',
    `Content-Length: ${body.length}`,
    'Cache-Control: no-store',
    `X-Request-Id: ${requestId}`,
    'Connection: close',
  ]
  socket.write(`${head.join('\r\n')}\r\n\r\n${body}`)
  takeLeave(socket)
}

/** The status for what Node's parser or its timers complain about. */
export const flawOf = (error: NodeJS.ErrnoException): string => FLAWS[error.code ?? ''] ?? '400 Bad Request'

const FLAWS: Record<string, string> = {
  HPE_CHUNK_EXTENSIONS_OVERFLOW: '413 Content Too Large',
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
}
