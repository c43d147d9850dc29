// A process of its own that floods a server, or calls it as an honest partner does and reports the duration.

import { connect, type Socket } from 'node:net'
import { serveJobs } from '../bench/helper.ts'
import { percentile } from '../bench/row.ts'

export type Job =
  /** Calls without a break over so many connections, with one request after the other, until `stop`. */
  | { kind: 'flood'; url: string; connections: number; requests: string[] }
  | { kind: 'stop' }
  /** Makes the same call over each connection, one after the other, for so long. */
  | { kind: 'partner'; url: string; connections: number; request: string; ms: number }
export type Done = { calls: number; p50Ms: number; p99Ms: number; perSecond: number }

/** In place of a status: the connection ended, and an answer may have been lost with it. */
const HUNG_UP = 0
const END = Buffer.from('\r\n\r\n')

/**
 * Sends `next()` whenever the last request was answered, and reports the answer; reconnects after a disconnect. The
 * answers must be whole, with a length.
 */
function caller(url: string, next: () => string | null, onAnswer: (status: number, ms: number) => void) {
  const { hostname: host, port } = new URL(url)
  let socket: Socket
  let hasEnded = false
  const begin = (): void => {
    let sentAt = 0
    let heard = Buffer.alloc(0)
    let isAnswered = true
    const send = (): void => {
      const text = next()
      if (text === null) return void socket.destroy()
      sentAt = performance.now()
      isAnswered = false
      socket.write(text)
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
      onAnswer(Number(text.slice(9, 12)), performance.now() - sentAt)
      if (!/connection: close/i.test(text)) send()
      else socket.destroy()
    })
    socket.on('error', () => {})
    socket.on('close', () => {
      if (hasEnded) return
      if (!isAnswered) onAnswer(HUNG_UP, performance.now() - sentAt)
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

async function partner({ url, connections, request, ms }: Job & { kind: 'partner' }): Promise<Done> {
  const times: number[] = []
  const wrong: number[] = []
  const until = performance.now() + ms
  const ends = Array.from({ length: connections }, () =>
    caller(
      url,
      () => request,
      (status, took) => {
        if (status !== 200) wrong.push(status)
        times.push(took)
      },
    ),
  )
  await new Promise((resolve) => setTimeout(resolve, until - performance.now()))
  for (const end of ends) end()
  if (wrong.length > 0 || times.length === 0) throw new Error(`answered ${times.length}, with ${wrong[0]}`)
  const sorted = times.sort((a, b) => a - b)
  return {
    calls: times.length,
    p50Ms: percentile(sorted, 0.5),
    p99Ms: percentile(sorted, 0.99),
    perSecond: (times.length / ms) * 1000,
  }
}

serveJobs<Job, Done>(async (job) => {
  if (job.kind === 'partner') return partner(job)
  if (job.kind === 'flood') beginFlood(job)
  else flood.end()
  return { calls: flood.calls, p50Ms: 0, p99Ms: 0, perSecond: 0 }
})
