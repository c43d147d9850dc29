// One connection: which of its calls are being answered, which wait, and when it ends.

import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { isFramedInDoubt } from '../request-head.ts'
import { isLeaving, takeLeave } from './end-connection.ts'
import { refuse } from './refuse-broken-http.ts'

/** How many calls of one connection are answered at a time; nothing is read from it meanwhile. */
export const CALLS_MAX = 16
/** How many more may have arrived: everything that one read from the socket brings has to be taken. */
const CALLS_AHEAD_MAX = 240

export type Connection = {
  /** A call has arrived. */
  take: (request: IncomingMessage, response: ServerResponse) => void
  /** What came is not HTTP: the calls before it are answered, then it is refused with this status. */
  breakOff: (status: string) => void
  /** Takes no further call, says so with the last answer, and ends. */
  drain: () => void
  /** Whether a call is being answered. */
  isBusy: () => boolean
}
type Call = { request: IncomingMessage; response: ServerResponse }

export function createConnection(socket: Socket, handle: RequestListener, uuid: () => string): Connection {
  /** In the order of their arrival, which is that of their answers. */
  const open: Call[] = []
  const waiting: Call[] = []
  let isPaused = false
  let isEnding = false
  let flaw: string | null = null
  // Node calls this after an answer that says `Connection: close`; its own would cut off a client that is still
  // sending.
  socket.destroySoon = () => takeLeave(socket)

  function begin(call: Call): void {
    open.push(call)
    // Whether it was answered, or its client left.
    call.response.once('close', () => finish(call))
    handle(call.request, call.response)
  }

  function finish(call: Call): void {
    open.splice(open.indexOf(call), 1)
    if (socket.destroyed) return
    if (!call.request.complete) discardRest(call.request)
    const next = waiting.shift()
    if (next) begin(next)
    else goOnReading()
    if (isEnding) endWhenAnswered()
  }

  function goOnReading(): void {
    if (!isPaused || isLeaving(socket)) return
    isPaused = false
    socket.resume()
  }

  function endWhenAnswered(): void {
    // A call whose own body is broken or missing would wait for bytes that will not be read.
    const rest = open.filter(({ request, response }) => request.complete || response.headersSent)
    if (rest.length > 0 || waiting.length > 0 || isLeaving(socket)) return
    if (flaw !== null) refuse(socket, flaw, uuid())
    else if (open.length === 0) takeLeave(socket)
  }

  return {
    isBusy: () => open.length > 0,
    take(request, response) {
      // What was sent after the end is not answered; `Connection: close` tells the client that it was not processed.
      if (isEnding || isLeaving(socket)) return
      request.on('error', ignore)
      response.on('error', ignore)
      // To the proxy that passed it on, what follows may be part of it.
      if (isFramedInDoubt(request)) isEnding = true
      if (open.length < CALLS_MAX) return begin({ request, response })
      if (waiting.length >= CALLS_AHEAD_MAX) return void socket.destroy()
      waiting.push({ request, response })
      isPaused = true
      socket.pause()
    },
    breakOff(status) {
      if (isEnding || isLeaving(socket)) return
      isEnding = true
      flaw = status
      endWhenAnswered()
    },
    drain() {
      if (isLeaving(socket)) return
      isEnding = true
      waiting.length = 0
      if (open.length === 0) return void socket.destroy()
      const { response } = open.at(-1) as Call
      if (!response.headersSent) response.setHeader('connection', 'close')
    },
  }
}

/** A connection that breaks ends its calls, and that is all. */
function ignore(): void {}

/** The rest of a body that was answered before its end. Its reader has stopped, and would hold it up. */
function discardRest(request: IncomingMessage): void {
  request.removeAllListeners('data').removeAllListeners('readable')
  request.resume()
}
