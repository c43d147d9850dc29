// The code blocks of a page.

/** The code blocks of a language, in their order. */
export const blocksOf = (page: string, language: string): string[] =>
  [...page.matchAll(new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``, 'g'))].map(([, block = '']) => block)

// What an option takes and what it refuses, said by its kind: the rows of the test of every option.

/** Words and the value each is read as, and words that are usage errors. */
export type Row = { takes: [word: string, value: unknown][]; refuses: string[] }

const HUGE = '9'.repeat(30)
const NO_NUMBERS = ['-1', '1.5', '0x10', '1e3', 'NaN', 'Infinity', ' 1', HUGE, 'off', 'none', 'x']
const DAY_MS = 86_400_000

/** A whole number from `min` to `max`. */
export const whole = (min: number, max: number): Row => ({
  takes: [
    [String(min), min],
    [String(max), max],
  ],
  refuses: [...NO_NUMBERS, String(min - 1), String(max + 1)],
})

const NO_TIMES = [HUGE, `${HUGE}s`, '0', '0s', '0d', '60', '-1s', '1.5h', '1w', '1 s', 's', 'none', '1S']

/** A time of one second to `days` days; `off` where that is a word of its own. */
export const time = (days: number, { off = false } = {}): Row => ({
  takes: [
    ['1s', 1_000],
    ['15m', 900_000],
    [`${days}d`, days * DAY_MS],
    ...(off ? ([['off', 'off']] as Row['takes']) : []),
  ],
  refuses: [...NO_TIMES, `${days + 1}d`, `${days * 24 + 1}h`, ...(off ? ['OFF', 'null'] : ['off'])],
})

/** A decimal that is kept as it was typed, of at most `places` places. */
export const decimal = (places: number, { zero = true } = {}): Row => {
  const smallest = `0.${'1'.padStart(places, '0')}`
  return {
    takes: [[smallest, smallest], ['64250', '64250'], ...(zero ? ([['0', '0']] as Row['takes']) : [])],
    refuses: ['-1', '1e3', '0x10', '1,5', '.5', HUGE, `${smallest}1`, ...(zero ? [] : ['0', '0.00'])],
  }
}

export const oneOf = (...words: string[]): Row => ({
  takes: words.map((word) => [word, word]),
  refuses: [words[0]?.toUpperCase() ?? '', '0', '-1', HUGE, 'null'],
})

/** Any words that are not empty: what they say is looked at later. */
export const anyWords = (...words: string[]): Row => ({
  takes: words.map((word) => [word, word]),
  refuses: [],
})

export const words = (takes: Row['takes'], refuses: string[]): Row => ({ takes, refuses })

/** An address and a port, or none. */
export const PLACE: Row = {
  takes: [
    ['off', 'off'],
    ['127.0.0.1:0', { host: '127.0.0.1', port: 0 }],
    ['0.0.0.0:65535', { host: '0.0.0.0', port: 65_535 }],
    ['[::1]:9090', { host: '::1', port: 9090 }],
  ],
  refuses: [
    ...['9090', ':9090', 'localhost:9090', '127.0.0.1', '127.1:9090'],
    ...['127.0.0.1:65536', '::1:9090', '[::1]', '127.0.0.1:'],
  ],
}

export const MONTH = words(
  [
    ['0001-01', '0001-01'],
    ['1969-12', '1969-12'],
    ['9999-12', '9999-12'],
  ],
  ['0000-12', '2026-00', '2026-13', '2026-1', '202601', '-001-01', '10000-01', '2026-01-01'],
)
export const TIME = words(
  [
    ['2026-01-31', Date.UTC(2026, 0, 31)],
    ['2026-01-31T08:00:00+01:00', Date.UTC(2026, 0, 31, 7)],
  ],
  ['2026-01-31T08:00:00', '2026-02-30', '2026-01', '24', '0h', '5y', 'today', '-1', '9'.repeat(30)],
)
export const ENVIRONMENT = oneOf('test', 'live')
export const SLUG = words(
  [
    ['ab', 'ab'],
    ['a'.repeat(63), 'a'.repeat(63)],
  ],
  ['a', '-ab', 'AB', 'a'.repeat(64), 'a b', 'ä1'],
)
export const REASON = words(
  [
    [' a ', 'a'],
    ['a'.repeat(2_000), 'a'.repeat(2_000)],
  ],
  ['a'.repeat(2_001), 'a\nb', 'a\u001bb'],
)
export const SHARE = words(
  [
    ['0', 0],
    ['1', 1],
    ['.5', 0.5],
  ],
  ['-1', '-0.1', '1.1', '2', '1e-1', '0.1234567', '9'.repeat(30)],
)
