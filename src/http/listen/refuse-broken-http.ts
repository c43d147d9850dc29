// Refuses what is not HTTP, is too large or comes too slowly: with which status, and how the answer looks.

import type { Socket } from 'node:net'
import { takeLeave } from './end-connection.ts'

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
export const statusOfFlaw = (error: NodeJS.ErrnoException): string =>
  FLAWS[error.code ?? ''] ?? '400 Bad Request'

const FLAWS: Record<string, string> = {
  HPE_CHUNK_EXTENSIONS_OVERFLOW: '413 Content Too Large',
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
}
