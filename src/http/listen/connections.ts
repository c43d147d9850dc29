// All connections of a server: who comes in, who is turned away, and how they end.

import type { RequestListener, Server } from 'node:http'
import type { Socket } from 'node:net'
import { createGates } from './call-gate.ts'
import { type Connection, createConnection } from './connection.ts'
import { isLeaving } from './end-connection.ts'
import { networkOf } from './network.ts'
import { statusOfFlaw } from './refuse-broken-http.ts'
import { HANDSHAKE_TIMEOUT_MS } from './time-limits.ts'

export type ConnectionLimits = {
  /** All together. */
  connectionsMax: number
  /** From one address, or one IPv6 network of 64 bits. This machine itself is exempt: it may be a proxy. */
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

export type Connections = {
  accept: RequestListener
  watch: (server: Server) => void
  /** Ends the idle ones, and the others after their answers. */
  drain: () => void
  /** Cuts off whatever is still connected. */
  endAll: () => void
}

const TURNED_AWAY_EVERY_MS = 60_000

export function createConnections(options: Options): Connections {
  const { isTls, handle, uuid, stallMs, connectionsMax, connectionsPerAddressMax } = options
  /** The sockets as they came in. Under TLS, these are not the ones that speak HTTP. */
  const sockets = new Set<Socket>()
  const connections = new Map<Socket, Connection>()
  const handshakes = new Map<string, NodeJS.Timeout>()
  const perAddress = new Map<string, number>()
  const turnAway = atMostEvery(TURNED_AWAY_EVERY_MS, options.onTurnedAway)
  const openGate = createGates()
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
    if (isTls)
      handshakes.set(
        peer,
        setTimeout(() => socket.destroy(), HANDSHAKE_TIMEOUT_MS),
      )
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
    const gate = openGate()
    const handleInTurn: RequestListener = (request, response) =>
      gate(() => {
        if (!socket.destroyed) handle(request, response)
      })
    connections.set(socket, createConnection(socket, handleInTurn, uuid))
    socket.once('close', () => connections.delete(socket))
  }

  function endHandshake(peer: string): void {
    clearTimeout(handshakes.get(peer))
    handshakes.delete(peer)
  }

  function onTimeout(socket: Socket): void {
    // Only answers can stall: requests have a limit of their own, and our own slowness is not the client's fault.
    const isOurTurn = connections.get(socket)?.isBusy() && socket.writableLength === 0
    if (isOurTurn) socket.setTimeout(stallMs)
    else socket.destroy()
  }

  /** Without this Node would cut the connection off, and with it the answers to the calls before. */
  function refuseTunnel(socket: Socket): void {
    // Node hands it over, and no longer listens to it.
    socket.on('error', () => socket.destroy()).on('timeout', () => onTimeout(socket))
    connections.get(socket)?.breakOff('400 Bad Request')
  }

  return {
    accept: (request, response) => connections.get(request.socket)?.take(request, response),
    watch(server) {
      server.maxConnections = connectionsMax
      server.timeout = stallMs
      server.on('drop', () => turnAway(`all ${connectionsMax} connections are taken`))
      server.on('connection', comeIn)
      if (isTls) server.on('secureConnection', speakHttp)
      server.on('timeout', onTimeout)
      server.on('connect', ({ socket }) => refuseTunnel(socket))
      server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
        const connection = connections.get(socket)
        if (connection && isLeaving(socket)) return
        // A handshake that failed, or a client that is gone: nobody is there to be answered.
        if (!connection || !socket.writable || error.code === 'ECONNRESET') socket.destroy()
        else connection.breakOff(statusOfFlaw(error))
      })
    },
    drain() {
      isDraining = true
      for (const connection of connections.values()) connection.drain()
      const established = new Set([...connections.keys()].map(peerOf))
      for (const socket of sockets) if (!established.has(peerOf(socket))) socket.destroy()
    },
    endAll() {
      for (const socket of sockets) socket.destroy()
    },
  }
}

/** Tells two connections apart, and is the same for both sockets of one. */
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
