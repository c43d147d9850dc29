// A process of its own that floods a server.

import { connect, type Socket } from 'node:net'
import { serveJobs } from '../bench/helper.ts'

export type Job =
  /** Calls without a break over so many connections, with one request after the other, until `stop`. */
  { kind: 'flood'; url: string; connections: number; requests: string[] } | { kind: 'stop' }
export type Done = { calls: number }

const END = Buffer.from('\r\n\r\n')

/**
 * Sends `next()` whenever the last request was answered, and reports it; reconnects after a disconnect. The answers
 * must be whole, with a length.
 */
function caller(url: string, next: () => string, onAnswer: () => void) {
  const { hostname: host, port } = new URL(url)
  let socket: Socket
  let hasEnded = false
  const begin = (): void => {
    let heard = Buffer.alloc(0)
    let isAnswered = true
    const send = (): void => {
      isAnswered = false
      socket.write(next())
    }
    socket = connect({ host, port: Number(port), noDelay: true })
    socket.on('connect', send)
    socket.on('data', (chunk: Buffer<ArrayBuffer>) => {
      heard = heard.length === 0 ? chunk : Buffer.concat([heard, chunk])
      const head = heard.indexOf(END)
      if (head < 0 || isAnswered) return
      const text = heard.toString('latin1', 0, head)
      const length = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0)
      const isChunked = /transfer-encoding: chunked/i.test(text)
      const end = isChunked ? heard.indexOf('0\r\n\r\n', head) : head + END.length + length
      if (end < 0 || heard.length < end) return
      heard = Buffer.alloc(0)
      isAnswered = true
      onAnswer()
      if (!/connection: close/i.test(text)) send()
      else socket.destroy()
    })
    socket.on('error', () => {})
    socket.on('close', () => {
      if (hasEnded) return
      if (!isAnswered) onAnswer()
      setImmediate(begin)
    })
  }
  begin()
  return () => {
    hasEnded = true
    socket.destroy()
  }
}

let flood = { calls: 0, end: () => {} }

function beginFlood({ url, connections, requests }: Job & { kind: 'flood' }): void {
  const mine = { calls: 0, end: () => {} }
  let sent = 0
  const next = () => requests[sent++ % requests.length] ?? ''
  const ends = Array.from({ length: connections }, () =>
    caller(url, next, () => {
      mine.calls += 1
    }),
  )
  mine.end = () => ends.forEach((end) => void end())
  flood = mine
}

serveJobs<Job, Done>(async (job) => {
  if (job.kind === 'flood') beginFlood(job)
  else flood.end()
  return { calls: flood.calls }
})
