// Attacks on the connection: valid calls, calls whose end is in doubt, each with a call hidden behind it, and bytes
// changed at random.

import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import fc from 'fast-check'
import { type Answer, takeAnswer } from './oracle.ts'

/** A call of a wire attack: its kind, and whether the service must refuse it and everything after it. */
export type Message =
  | { kind: 'me' }
  | { kind: 'link'; chunks: number | null }
  | { kind: 'doubtful'; doubt: number }
  | { kind: 'rubbish'; text: string }
/** Changes the bytes of all messages together. Places wrap around. */
type Slip =
  | { kind: 'replace'; at: number; text: string }
  | { kind: 'insert'; at: number; text: string }
  | { kind: 'remove'; at: number; length: number }
  | { kind: 'double'; at: number; length: number }
  | { kind: 'cut'; at: number }
export type Attack = {
  messages: Message[]
  slips: Slip[]
  /** The number of writes it is sent in. */
  pieces: number
  leave: 'end' | 'reset'
}

type Doubt = { lines: string[]; body: (json: string) => string }
const length = (json: string): string => `Content-Length: ${json.length}`
const size = (json: string): string => json.length.toString(16)
const chunk = (part: string): string => `${size(part)}\r\n${part}\r\n`
const chunked = (json: string): string => `${chunk(json)}0\r\n\r\n`
const plain = (json: string): string => json
const CHUNKED = 'Transfer-Encoding: chunked'

/**
 * Header lines that two readers may frame in two ways. `LENGTH` is the true Content-Length line, `BYTES` its number.
 */
const HEADS: [lines: string[], body: (json: string) => string][] = [
  ...[
    ['LENGTH', CHUNKED],
    [CHUNKED, 'LENGTH'],
    ['LENGTH', 'LENGTH'],
    ['Content-Length: 0', 'LENGTH'],
    ['Transfer-Encoding : chunked'],
    ['X: x', ' Transfer-Encoding: chunked'],
    ['Transfer-Encoding:', ' chunked'],
    ['X: x\nTransfer-Encoding: chunked'],
    ['X: x\rTransfer-Encoding: chunked'],
    ['Transfer-Encoding:\u000bchunked'],
    [CHUNKED, CHUNKED],
    [CHUNKED, 'Transfer-Encoding: identity'],
    ['Transfer-Encoding: identity', CHUNKED],
  ].map((lines): [string[], typeof chunked] => [lines, chunked]),
  ...[
    'xchunked',
    'identity',
    'gzip, chunked',
    'chunked, identity',
    '"chunked"',
    'chunked;q=1',
    ',chunked',
    'chunked,',
    '',
  ].map((coding): [string[], typeof chunked] => [[`Transfer-Encoding: ${coding}`], chunked]),
  ...[
    '+BYTES',
    'BYTES, BYTES',
    '-1',
    '0xBYTES',
    'BYTES.0',
    'BYTES 0',
    '1e2',
    '18446744073709551617',
    '',
    '\u00b2',
  ].map((written): [string[], typeof plain] => [[`Content-Length: ${written}`], plain]),
  ...[
    ['X: x', ' LENGTH'],
    ['X: x\nLENGTH'],
    ['X: \u0000', 'LENGTH'],
    [': x', 'LENGTH'],
    ['X', 'LENGTH'],
    ['LENGTH\n'],
  ].map((lines): [string[], typeof plain] => [lines, plain]),
]

/** Chunks that two readers may count in two ways. */
const CHUNKS: ((json: string) => string)[] = [
  ...[
    '0xSIZE',
    '+SIZE',
    '-SIZE',
    ' SIZE',
    'SIZE ',
    'SIZE\t',
    '1000000000000000SIZE',
    '',
    'g',
    'SIZE;\n',
    'SIZE;\u0000',
    'SIZE;\rx',
  ].map((written) => (json: string) => `${written.replace('SIZE', size(json))}\r\n${json}\r\n0\r\n\r\n`),
  (json) => `${size(json)}\n${json}\r\n0\r\n\r\n`,
  (json) => `${size(json)};${'e'.repeat(20_000)}\r\n${json}\r\n0\r\n\r\n`,
  ...[
    '\n0\r\n\r\n',
    '\r0\r\n\r\n',
    '0\r\n\r\n',
    'xx0\r\n\r\n',
    '\r\n0\n\n',
    '\r\n0\r\n\n',
    '\r\n0xx\r\n\r\n',
    '\r\n0\r\n a\r\n\r\n',
  ].map((end) => (json: string) => `${size(json)}\r\n${json}${end}`),
]

const DOUBTS: readonly Doubt[] = [
  ...HEADS.map(([lines, body]) => ({ lines, body })),
  ...CHUNKS.map((body) => ({ lines: [CHUNKED], body })),
]

const place = fc.nat({ max: 5_000 })
const scrap = fc.oneof(
  fc.constantFrom(
    '\r\n',
    '\n',
    '\r',
    '\r\n\r\n',
    '\u0000',
    ' ',
    '\t',
    ':',
    '0\r\n\r\n',
    '\u00ff',
    'HTTP/1.1',
    'chunked',
  ),
  fc.uint8Array({ minLength: 1, maxLength: 4 }).map((bytes) => Buffer.from(bytes).toString('latin1')),
)
const RUBBISH = [
  '\u0016\u0003\u0001\u0002',
  'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  'GET / HTTP/9.9\r\n\r\n',
  '\r\n\r\n',
  'GET /\r\n',
  '\u0000',
  'CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n',
  'OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n',
  'GET http://[ HTTP/1.1\r\nHost: x\r\n\r\n',
  'GET /partner/v1/me HTTP/1.1\r\n\r\n',
  'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n',
  `GET / HTTP/1.1\r\nX: ${'x'.repeat(30_000)}\r\n\r\n`,
  `GET / HTTP/1.1\r\nHost: x\r\n${'a:\r\n'.repeat(3_000)}\r\n`,
  `GET /${'x'.repeat(30_000)} HTTP/1.1\r\nHost: x\r\n\r\n`,
]

const message: fc.Arbitrary<Message> = fc.oneof(
  { arbitrary: fc.constant({ kind: 'me' as const }), weight: 2 },
  {
    arbitrary: fc.record(
      { kind: fc.constant('link' as const), chunks: fc.option(fc.integer({ min: 1, max: 50 })) },
      { noNullPrototype: true },
    ),
    weight: 2,
  },
  {
    arbitrary: fc.record({
      kind: fc.constant('doubtful' as const),
      doubt: fc.nat({ max: DOUBTS.length - 1 }),
    }),
    weight: 3,
  },
  fc.record({ kind: fc.constant('rubbish' as const), text: fc.constantFrom(...RUBBISH) }),
)

const slip: fc.Arbitrary<Slip> = fc.oneof(
  fc.record({ kind: fc.constant('replace' as const), at: place, text: scrap }),
  fc.record({ kind: fc.constant('insert' as const), at: place, text: scrap }),
  fc.record({ kind: fc.constant('remove' as const), at: place, length: fc.integer({ min: 1, max: 40 }) }),
  fc.record({ kind: fc.constant('double' as const), at: place, length: fc.integer({ min: 1, max: 200 }) }),
  fc.record({ kind: fc.constant('cut' as const), at: place }),
)

export const anyAttack: fc.Arbitrary<Attack> = fc.record({
  messages: fc.array(message, { minLength: 1, maxLength: 6 }),
  slips: fc.oneof(fc.constant<Slip[]>([]), fc.array(slip, { minLength: 1, maxLength: 3 })),
  pieces: fc.integer({ min: 1, max: 5 }),
  leave: fc.constantFrom<Attack['leave'][]>('end', 'end', 'end', 'reset'),
})

/** The text of a doubtful call: its headers, its body, and the call hidden behind it. */
export function doubtful(doubt: number, json: string): { lines: string[]; body: string } {
  const { lines, body } = DOUBTS[doubt % DOUBTS.length] as Doubt
  const written = lines.map((line) =>
    line.replace('LENGTH', length(json)).replaceAll('BYTES', String(json.length)),
  )
  return { lines: written, body: body(json) }
}

/** A body in so many chunks, or one for each character when it has fewer. */
export function inChunks(json: string, count: number): string {
  const step = Math.ceil(json.length / count)
  const parts = Array.from({ length: Math.ceil(json.length / step) }, (_, n) =>
    json.slice(n * step, (n + 1) * step),
  )
  return `${parts.map(chunk).join('')}0\r\n\r\n`
}

/** Changes the text in one place. */
export function applySlip(text: string, slip: Slip): string {
  const at = text.length === 0 ? 0 : slip.at % text.length
  switch (slip.kind) {
    case 'replace':
      return text.slice(0, at) + slip.text + text.slice(at + slip.text.length)
    case 'insert':
      return text.slice(0, at) + slip.text + text.slice(at)
    case 'remove':
      return text.slice(0, at) + text.slice(at + slip.length)
    case 'double':
      return text.slice(0, at + slip.length) + text.slice(at)
    case 'cut':
      return text.slice(0, at)
  }
}

// A client that sends exactly the given bytes, one call at a time over one connection, and opens another one when the
// service ends it.

/** Above every time limit of the service on a call that is sent in one piece. */
const ANSWER_MS = 20_000

type Sending = {
  isHead?: boolean
  /** Sends the bytes so many times, ahead of the answers. */
  times?: number
}
export type Client = {
  /**
   * Resolves with the answers, fewer than were sent only when the last one says that the connection is closed. Rejects
   * when they do not come in time, or are not HTTP.
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
