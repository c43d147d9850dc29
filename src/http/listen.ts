// The listening socket: plain or TLS, with time limits, and a close that lets calls in flight finish. Whatever a client
// sends, or fails to send, affects only its own connection.

import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { type H3, toNodeHandler } from 'h3'
import { reasonInWords } from '../core/problem.ts'
import { ERROR_STATUS, type ErrorCode, errorBody } from './error-codes.ts'
import { isFramedInDoubt, networkOf } from './request.ts'
import { type Certificate, makeServer, secureContextOf, type Tls } from './tls.ts'

export type Listener = {
  url: string
  /** The server's certificate, as PEM; null without TLS. */
  cert: string | null
  /** Takes another certificate for new connections. Throws, and keeps the old one, when its key does not match. */
  renew: (certificate: Certificate) => void
  /** Accepts no new connection, ends the idle ones, and resolves when the last call is answered. */
  close: () => Promise<void>
  /** Accepts no new connection, and cuts off the open ones. */
  end: () => void
}
/** The app that answers, looked up at every call, so that it can be replaced while the socket stays. */
export type Answering = Pick<H3, 'fetch'>
type ListenOptions = Partial<ConnectionLimits> & {
  host: string
  port: number
  tls: Tls
  /** Makes the ids for refusals of anything that is not HTTP. */
  uuid: () => string
  onTurnedAway?: (reason: string) => void
  /** How long an answer may wait here without the client taking any of it. */
  stallMs?: number
}

/** Listens on exactly this host and port (0 for any free one). Throws when it cannot. */
export async function listenOn(app: Answering, options: ListenOptions): Promise<Listener> {
  const { host, port, tls } = options
  const connections = createConnections({
    connectionsMax: Number.POSITIVE_INFINITY,
    connectionsPerAddressMax: Number.POSITIVE_INFINITY,
    onTurnedAway: () => {},
    stallMs: STALL_MS,
    ...options,
    isTls: tls !== null,
    handle: guarded(app),
  })
  const { server, cert } = await makeServer(connections.accept, tls)
  // The app refuses a call without Host, in JSON.
  Object.assign(server, LIMITS, { requireHostHeader: false })
  // The app decides whether a body is wanted, and what else may be expected.
  server.on('checkContinue', connections.accept).on('checkExpectation', connections.accept)
  connections.watch(server)
  await bind(server, host, port)
  const shown = host.includes(':') ? `[${host}]` : host
  const { port: bound } = server.address() as AddressInfo
  return {
    url: `${tls ? 'https' : 'http'}://${shown}:${bound}`,
    cert,
    renew: (certificate) => {
      if ('setSecureContext' in server) server.setSecureContext(secureContextOf(certificate))
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        connections.drain()
      }),
    end: () => {
      server.close()
      connections.endAll()
    },
  }
}

function bind(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      reject(new Error(`Cannot listen on port ${port} of ${JSON.stringify(host)}: ${reasonInWords(error)}.`))
    })
    server.listen({ host, port }, () => {
      server.removeAllListeners('error')
      // A connection that cannot be accepted, for example for lack of file descriptors, affects only its client.
      server.on('error', () => {})
      resolve()
    })
  })
}

/** A call that fails outside the app, for example on a broken socket, ends only its connection. */
function guarded(app: Answering): RequestListener {
  const handle = toNodeHandler({ fetch: (request: Request) => app.fetch(request) } as H3)
  return (request, response) => {
    const attempt = async (): Promise<unknown> => handle(request, response)
    attempt().catch(() => response.destroy())
  }
}

// One connection: its calls being answered, the waiting ones, and when it ends.

/** How many calls of one connection are answered at a time; meanwhile nothing is read from it. */
export const CALLS_MAX = 16
/** How many more calls may have arrived: all calls in one read from the socket must be accepted. */
const CALLS_AHEAD_MAX = 240

type Connection = {
  take: (request: IncomingMessage, response: ServerResponse) => void
  /** Refuses what is not HTTP, after the answers to the calls before it. */
  breakOff: (flaw: Flaw) => void
  /** Accepts no further call, says so in the last answer, and ends. */
  drain: () => void
  isBusy: () => boolean
}
type Call = { request: IncomingMessage; response: ServerResponse }

function createConnection(socket: Socket, handle: RequestListener, uuid: () => string): Connection {
  /** The calls in the order of their arrival, which is the order of their answers. */
  const open: Call[] = []
  const waiting: Call[] = []
  let isPaused = false
  let isEnding = false
  let flaw: Flaw | null = null
  // Node calls this after an answer with `Connection: close`; its own version would cut off a client that is still
  // sending.
  socket.destroySoon = () => endOnceWritten(socket)

  function begin(call: Call): void {
    open.push(call)
    // Emitted both when it was answered and when its client left.
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
    else if (open.length === 0) endOnceWritten(socket)
  }

  return {
    isBusy: () => open.length > 0,
    take(request, response) {
      // Calls sent after the end are not answered; `Connection: close` tells the client that they were not processed.
      if (isEnding || isLeaving(socket)) return
      request.on('error', ignore)
      response.on('error', ignore)
      // For the proxy that passed it on, the following bytes may be part of it.
      if (isFramedInDoubt(request)) isEnding = true
      if (open.length < CALLS_MAX) return begin({ request, response })
      if (waiting.length >= CALLS_AHEAD_MAX) return void socket.destroy()
      waiting.push({ request, response })
      isPaused = true
      socket.pause()
    },
    breakOff(found) {
      // A connection that is ending is refused only if a call waits for a body that will not come: it would wait for
      // ever.
      const waitsForBody = open.some(({ request }) => !request.complete)
      if (isLeaving(socket) || (isEnding && !waitsForBody)) return
      isEnding = true
      flaw = found
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

/** A broken connection ends its own calls, and needs no handling. */
function ignore(): void {}

/** Discards the rest of a body that was answered before its end: it would block the connection. */
function discardRest(request: IncomingMessage): void {
  request.removeAllListeners('data').removeAllListeners('readable')
  request.resume()
}

// All connections of a server: which are accepted, which are turned away, and how they end.

export type ConnectionLimits = {
  connectionsMax: number
  /** For one address, or one IPv6 network of 64 bits. This machine is exempt: a proxy may be on it. */
  connectionsPerAddressMax: number
}
type Options = ConnectionLimits & {
  isTls: boolean
  stallMs: number
  handle: RequestListener
  uuid: () => string
  /** Called when a connection was turned away, at most once a minute. */
  onTurnedAway: (reason: string) => void
}

const TURNED_AWAY_EVERY_MS = 60_000

function createConnections(options: Options) {
  const { isTls, handle, uuid, stallMs, connectionsMax, connectionsPerAddressMax } = options
  /** The sockets as accepted. Under TLS they are not the ones that speak HTTP. */
  const sockets = new Set<Socket>()
  const connections = new Map<Socket, Connection>()
  const handshakes = new Map<string, NodeJS.Timeout>()
  const perAddress = new Map<string, number>()
  const turnAway = atMostEvery(TURNED_AWAY_EVERY_MS, options.onTurnedAway)
  let isDraining = false

  function comeIn(socket: Socket): void {
    const address = networkOf(socket.remoteAddress)
    const count = address === null ? 0 : (perAddress.get(address) ?? 0)
    if (count >= connectionsPerAddressMax) turnAway(`${address} has ${count} connections`)
    if (isDraining || socket.remoteAddress === undefined || count >= connectionsPerAddressMax) {
      socket.destroy()
      return
    }
    sockets.add(socket)
    if (address !== null) perAddress.set(address, count + 1)
    const peer = peerOf(socket)
    const cutOff = () => socket.destroy()
    if (isTls) handshakes.set(peer, setTimeout(cutOff, HANDSHAKE_TIMEOUT_MS))
    else speakHttp(socket)
    socket.once('close', () => {
      sockets.delete(socket)
      endHandshake(peer)
      if (address === null) return
      const left = (perAddress.get(address) ?? 1) - 1
      if (left > 0) perAddress.set(address, left)
      else perAddress.delete(address)
    })
  }

  function speakHttp(socket: Socket): void {
    endHandshake(peerOf(socket))
    connections.set(socket, createConnection(socket, handle, uuid))
    socket.once('close', () => connections.delete(socket))
  }

  function endHandshake(peer: string): void {
    clearTimeout(handshakes.get(peer))
    handshakes.delete(peer)
  }

  function onTimeout(socket: Socket): void {
    // Only a written answer can stall: requests have a limit of their own, and a call still being handled is not the
    // client's fault.
    const isOurTurn = connections.get(socket)?.isBusy() && socket.writableLength === 0
    if (isOurTurn) socket.setTimeout(stallMs)
    else socket.destroy()
  }

  /** Refuses a tunnel. Otherwise Node would cut the connection off, with the answers to earlier calls. */
  function refuseTunnel(socket: Socket): void {
    // Node hands the socket over and no longer handles its events.
    socket.on('error', () => socket.destroy()).on('timeout', () => onTimeout(socket))
    connections.get(socket)?.breakOff('bad_request')
  }

  return {
    accept(request: IncomingMessage, response: ServerResponse): void {
      connections.get(request.socket)?.take(request, response)
    },
    watch(server: Server): void {
      server.maxConnections = connectionsMax
      server.timeout = stallMs
      const stalls = setInterval(createStallCheck(connections), stallMs).unref()
      server.on('close', () => clearInterval(stalls))
      server.on('drop', () => turnAway(`all ${connectionsMax} connections are taken`))
      server.on('connection', comeIn)
      if (isTls) server.on('secureConnection', speakHttp)
      server.on('timeout', onTimeout)
      server.on('connect', ({ socket }) => refuseTunnel(socket))
      server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
        const connection = connections.get(socket)
        if (connection && isLeaving(socket)) return
        // The handshake failed, or the client is gone: there is nobody to answer.
        if (!connection || !socket.writable || error.code === 'ECONNRESET') socket.destroy()
        else connection.breakOff(FLAWS[error.code ?? ''] ?? 'bad_request')
      })
    },
    /** Ends the idle ones, and the others after their answers. */
    drain(): void {
      isDraining = true
      for (const connection of connections.values()) connection.drain()
      const established = new Set([...connections.keys()].map(peerOf))
      for (const socket of sockets) if (!established.has(peerOf(socket))) socket.destroy()
    },
    endAll(): void {
      for (const socket of sockets) socket.destroy()
    },
  }
}

type Moved = Pick<Socket, 'bytesRead' | 'bytesWritten' | 'writableLength'>

/** Ends those that take nothing of an answer and send, which postpones the timeout for silent connections. */
function createStallCheck(connections: ReadonlyMap<Socket, unknown>): () => void {
  const seen = new WeakMap<Socket, Moved>()
  return () => {
    for (const socket of connections.keys()) {
      const before = seen.get(socket)
      const { bytesRead, bytesWritten, writableLength } = socket
      seen.set(socket, { bytesRead, bytesWritten, writableLength })
      const tookNone = before?.bytesWritten === bytesWritten && before.writableLength === writableLength
      if (writableLength > 0 && tookNone && before.bytesRead !== bytesRead) socket.destroy()
    }
  }
}

/** Identifies a connection, by a value that both of its sockets share. */
const peerOf = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress} ${remotePort}`

function atMostEvery(ms: number, tell: (reason: string) => void): (reason: string) => void {
  let isQuiet = false
  return (reason) => {
    if (isQuiet) return
    isQuiet = true
    setTimeout(() => {
      isQuiet = false
    }, ms).unref()
    tell(reason)
  }
}

// How our side ends a connection without losing its last answer.

/** How long, and how much, a client may still send before it is cut off. */
const LEAVE_MS = 2_000
const LEAVE_BYTES_MAX = 1024 * 1024
const LEAVE_CHECK_MS = 50

const leaving = new WeakSet<Duplex>()

/** Whether the connection has had its last answer. */
const isLeaving = (socket: Duplex): boolean => leaving.has(socket)

/**
 * Ends our side once everything is written, and the connection when the client ends its side. Meanwhile its bytes are
 * read and thrown away: closing with unread bytes would reset the connection, and lose the answer on its way.
 */
function endOnceWritten(socket: Socket): void {
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

// Refusals of anything that is not HTTP, is too large or comes too slowly: the status and the form of the answer.

/** Refuses anything but HTTP, in the form of every other refusal, and ends the connection. */
function refuse(socket: Socket, flaw: Flaw, requestId: string): void {
  const phrase = PHRASES[flaw]
  const body = errorBody(phrase)
  const head = [
    `HTTP/1.1 ${ERROR_STATUS[flaw]} ${phrase}`,
    'Content-Type: application/json',
    `Content-Length: ${body.length}`,
    'Cache-Control: no-store',
    `X-Request-Id: ${requestId}`,
    `X-Error-Code: ${flaw}`,
    'Connection: close',
  ]
  socket.write(`${head.join('\r\n')}\r\n\r\n${body}`)
  endOnceWritten(socket)
}

/** The possible flaws of incoming data, and the text of the refusal of each. */
const PHRASES = {
  bad_request: 'Bad Request',
  request_timeout: 'Request Timeout',
  body_too_large: 'Content Too Large',
  headers_too_large: 'Request Header Fields Too Large',
} as const satisfies Partial<Record<ErrorCode, string>>
type Flaw = keyof typeof PHRASES

/** The flaws, by the error code of Node's parser or its timers. */
const FLAWS: Record<string, Flaw> = {
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 'body_too_large',
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
}

/** Node reads the times when the server begins to listen, and the others at every connection. */
const LIMITS = {
  headersTimeout: 10_000,
  requestTimeout: 30_000,
  /** How often Node checks the two limits above. */
  connectionsCheckingInterval: 2_000,
  /** Longer than the usual 60 s of a proxy or a poller, so that the client closes first. */
  keepAliveTimeout: 75_000,
}

const HANDSHAKE_TIMEOUT_MS = 10_000
const STALL_MS = 30_000
