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
