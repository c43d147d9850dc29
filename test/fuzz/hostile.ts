// Values that nobody sends in good faith: text, JSON, header lines, path segments and query strings.

import fc from 'fast-check'

/** Part of every hostile text, so that an answer which repeats one can be recognized. */
export const MARK = 'zqx'

/** A text as an id or a word: every alphabet, controls, marks of direction, half surrogate pairs, prototypes' names. */
const hostileText: fc.Arbitrary<string> = fc.oneof(
  fc.array(fc.nat({ max: 0xffff }), { maxLength: 30 }).map((units) => MARK + String.fromCharCode(...units)),
  fc.string({ unit: 'grapheme', maxLength: 30 }).map((text) => `${text}${MARK}`),
  fc
    .constantFrom('\u0000', '\r\n', '\u001b[2J', '\u0085', '\ud800', '\u202e', '\ufeff')
    .map((text) => `${MARK}${text}`),
  fc
    .constantFrom("' or 1=1 --", '../..', '\\', '%00', '#', '?', '=cmd()', '<b>', '"', 'e\u0301')
    .map((text) => `${text}${MARK}`),
  fc.integer({ min: 250, max: 5_000 }).map((length) => `${MARK}${'\u{1f680}'.repeat(length)}`),
  fc.constantFrom('__proto__', 'constructor', 'toString', 'hasOwnProperty', '.', '..', ' ', 'null'),
)

/** Almost a decimal, a date or a URL, and valid ones that may not be sent: too long, too early, or of this machine. */
const nearlyRight = fc.constantFrom(
  ...['-0.00', '1e3', '0x10', '1_000', 'Infinity', '+1', ' 1', '1.', '\u0661'],
  ...['1'.repeat(19), `0.${'0'.repeat(17)}1`, '1'.repeat(10_000)],
  ...['2026-02-30', '2026-01-05T24:00:00Z', '0000-01-01T00:00:00Z', '9999-12-31T23:59:59.999Z'],
  ...['2026-01-05T10:00:00', '-271821-04-20T00:00:00Z', '2026-01-05T10:00:00+99:99', 'https://[::1'],
  ...['https://127.0.0.1:99999/', 'https://user@127.0.0.1/', 'https://0x7f.1/'],
)

/** The JSON text of one value, well-formed or not. */
export const hostileJson: fc.Arbitrary<string> = fc.oneof(
  { arbitrary: hostileText.map((text) => JSON.stringify(text)), weight: 4 },
  nearlyRight.map((text) => JSON.stringify(text)),
  fc.json({ maxDepth: 3 }),
  fc.constantFrom('null', 'true', '0', '-0', '1e400', '9007199254740993', '[]', '{}', '[[]]', '""'),
  fc.constantFrom('NaN', '01', "'a'", '"\\x"', '"\\ud800"', '"\\u0000"', '"\n"', '//', '{"a":1,}'),
  fc.constantFrom('{"__proto__":{"status":"filled"}}', '{"toString":1}', '{"length":1e9}', '{"then":{}}'),
  fc
    .tuple(fc.constantFrom('[', '{"a":', '[{"a":'), fc.integer({ min: 1, max: 12_000 }), fc.boolean())
    .map(([open, depth, isClosed]) => nested(open, depth, isClosed)),
)

function nested(open: string, depth: number, isClosed: boolean): string {
  const close = [...open].reverse().map((letter) => ({ '[': ']', '{': '}' })[letter] ?? '')
  return open.repeat(depth) + (isClosed ? `1${close.join('').repeat(depth)}` : '')
}

/** Bytes inserted into a body somewhere. */
export const hostileBytes: fc.Arbitrary<Uint8Array> = fc.oneof(
  fc.uint8Array({ minLength: 1, maxLength: 8 }),
  fc
    .constantFrom([0xff], [0xc0, 0xaf], [0xed, 0xa0, 0x80], [0xef, 0xbb, 0xbf], [0], [0xf4, 0x90, 0x80, 0x80])
    .map((bytes) => Uint8Array.from(bytes)),
  fc.integer({ min: 1, max: 70_000 }).map((length) => new Uint8Array(length).fill(0x20)),
)

/** The name of a member that no schema has. */
export const strangeName: fc.Arbitrary<string> = fc.oneof(
  fc.constantFrom('__proto__', 'constructor', 'toString', 'then', '', '$where', 'tenant_id', 'partner_slug'),
  hostileText,
)

/** Printable, so that any text of it is a header line. */
const word = fc.string({ unit: fc.constantFrom(...'abcXYZ019-_.;,=/"* '), maxLength: 40 })

const header = (name: string, value: fc.Arbitrary<string>) => fc.tuple(fc.constant(name), value)

/** A header line that does not affect the length of a request. */
export const hostileHeader: fc.Arbitrary<readonly [name: string, value: string]> = fc.oneof(
  header('Content-Type', fc.oneof(word, fc.constantFrom('text/xml', 'multipart/form-data; boundary=x', ''))),
  header(
    'Content-Encoding',
    fc.constantFrom('gzip', 'br', 'identity', 'IDENTITY', 'gzip, identity', 'x', ''),
  ),
  header('X-Request-Id', fc.oneof(word, fc.constantFrom('a'.repeat(128), 'a'.repeat(129), '<x>', '\u00e9'))),
  fc.tuple(
    fc.constantFrom('Accept', 'Accept-Encoding', 'If-None-Match', 'Range', 'Cookie', 'TE', 'Trailer'),
    word,
  ),
  fc.tuple(
    fc.constantFrom('X-Forwarded-For', 'X-HTTP-Method-Override', 'X-Original-URL', 'Forwarded', 'Origin'),
    word,
  ),
  header(
    'X-Padding',
    fc.integer({ min: 1, max: 20_000 }).map((length) => 'p'.repeat(length)),
  ),
  header('Expect', fc.constantFrom('100-continue', '200-ok', '')),
  header('__proto__', word),
)

/** A path segment as it is sent. */
export const hostileSegment: fc.Arbitrary<string> = fc.oneof(
  hostileText.map((text) => encodeURIComponent(text.toWellFormed())),
  fc.constantFrom('%', '%zz', '%ff', '%00', '%2e%2e', '..', '', '%2F', '%c0%af', '%ed%a0%80', ';x', '\\'),
  fc.integer({ min: 1, max: 12_000 }).map((length) => 'x'.repeat(length)),
)

/** A query string as it is sent, without its question mark. */
export const hostileQuery: fc.Arbitrary<string> = fc.oneof(
  fc
    .array(
      fc.tuple(fc.constantFrom('month', 'limit', 'cursor', '__proto__', 'constructor', ''), hostileText),
      { maxLength: 4 },
    )
    .map((pairs) =>
      new URLSearchParams(pairs.map(([name, value]) => [name, value.toWellFormed()])).toString(),
    ),
  fc.constantFrom(
    ...['month', 'month=', 'month[]=2026-01', 'month=%ff', '&&&', '=', 'month=2026-01&month=x', '?', '%00'],
  ),
  fc.constantFrom('0x1', '1e2', '%2B1', '').map((limit) => `month=2026-01&limit=${limit}`),
  fc
    .constantFrom('0000-01', '9999-12', '0001-01', '2026-13', '1969-12', '%32026-01')
    .map((month) => `month=${month}`),
  fc.string({ unit: fc.constantFrom(...'am=&;+%2fF.[]'), maxLength: 60 }),
  fc.integer({ min: 1, max: 3_000 }).map((count) => 'a=&'.repeat(count)),
)
