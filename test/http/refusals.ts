// The messages of a 422, and for each kind of field the values it must refuse: shared by the tables of every body.

export type Refusal = readonly [type: string, msg: string]
/** Bad values of one field, each with what must be said of it. */
export type BadValues = readonly (readonly [value: unknown, refusal: Refusal])[]

/** Stands for leaving the field out. */
export const ABSENT = Symbol('absent')

export const missing: Refusal = ['missing', 'Field required']
export const notString: Refusal = ['string_type', 'Input should be a valid string']
export const tooShort: Refusal = ['string_too_short', 'String should have at least 1 character']
export const tooLong = (max: number): Refusal => [
  'string_too_long',
  `String should have at most ${max} characters`,
]
const notBool: Refusal = ['bool_type', 'Input should be a valid boolean']
const notOneOf = (spoken: string): Refusal => ['literal_error', `Input should be ${spoken}`]
const notDecimal: Refusal = ['decimal_parsing', 'Input should be a valid decimal']
export const places: Refusal = [
  'decimal_max_places',
  'Decimal input should have no more than 2 decimal places',
]
export const above = (bound: string): Refusal => ['greater_than', `Input should be greater than ${bound}`]
export const atLeast = (bound: string): Refusal => [
  'greater_than_equal',
  `Input should be greater than or equal to ${bound}`,
]
export const atMost = (bound: string): Refusal => [
  'less_than_equal',
  `Input should be less than or equal to ${bound}`,
]
export const notDatetime: Refusal = ['datetime_type', 'Input should be a valid datetime']
const noOffset: Refusal = ['timezone_aware', 'Input should have timezone info']
const badDate = (reason: string): Refusal => [
  'datetime_from_date_parsing',
  `Input should be a valid datetime or date, ${reason}`,
]
export const notUrl: Refusal = ['url_parsing', 'Input should be a valid URL']
const notHttps: Refusal = ['url_scheme', "URL scheme should be 'https'"]
const urlTooLong: Refusal = ['url_too_long', 'URL should have at most 2083 characters']
export const valueError = (text: string): Refusal => ['value_error', `Value error, ${text}`]
export const controls = valueError('must not contain control characters')

const each = (values: readonly unknown[], refusal: Refusal): BadValues =>
  values.map((value) => [value, refusal] as const)

/** Every JSON type but text; null among them only where the field does not take it. */
const NOT_TEXT = [0, 1, 1.5, true, false, [], ['x'], {}, { $ne: 1 }]

export const badText = (max: number): BadValues => [
  ...each(NOT_TEXT, notString),
  ['x'.repeat(max + 1), tooLong(max)],
  ...each(['a\u0000b', 'a\nb', '\u001f', 'a\u007f', '\u0085', 'tab\t'], controls),
  ['\ud800', valueError('must be valid Unicode text')],
  ['x\udc00y', valueError('must be valid Unicode text')],
]

/** An id that a path has to carry. */
export const badPathId: BadValues = each(['.', '..'], valueError('must not be "." or ".."'))

export const badId: BadValues = [...badText(255), ['', tooShort], [null, notString], [ABSENT, missing]]

export const badBool: BadValues = each(['yes', 'true', 'false', '', 1, 0, null, [], {}], notBool)

export const badChoice = (spoken: string, similar: readonly string[]): BadValues =>
  each([...similar, '', 0, true, null, [], {}, 'toString', '__proto__'], notOneOf(spoken))

const NOT_DECIMALS = [
  ['', ' ', ' 1', '1 ', '1\n', '+1', '--1', '-', '.', '.5', '1.', '1.2.3', '1,5', '1,000.00', '$5', 'ten'],
  ['1e3', '1E-2', '0x10', '0b1', '0o7', '1_000', 'Infinity', '-Infinity', 'NaN', 'null', '\u0661', '1\u0000'],
  ['1'.repeat(19), `1.${'0'.repeat(19)}`],
].flat()

/** Numbers are refused too: a JSON number has been through a float somewhere. */
export const badDecimal: BadValues = [...each(NOT_DECIMALS, notDecimal), ...each(NOT_TEXT, notString)]

export const badDatetime: BadValues = [
  ...each([...NOT_TEXT, 1767225600], notDatetime),
  ['', badDate('input is too short')],
  ['2026', badDate('input is too short')],
  ['1767225600', badDate('invalid date separator or digits')],
  ['tomorrow, at noon', badDate('invalid date separator or digits')],
  ['2026-00-01', badDate('month value is outside expected range of 1-12')],
  ['2026-13-01T00:00:00Z', badDate('month value is outside expected range of 1-12')],
  ['2026-02-29', badDate('day value is outside expected range')],
  ['2026-02-29T00:00:00Z', badDate('day value is outside expected range')],
  ['1900-02-29', badDate('day value is outside expected range')],
  ['2026-04-31', badDate('day value is outside expected range')],
  ['2026-01-00', badDate('day value is outside expected range')],
  ['2026-01-01T24:00:00Z', badDate('hour value is outside expected range of 0-23')],
  ['2026-01-01T00:60:00Z', badDate('minute value is outside expected range of 0-59')],
  ['2026-01-01T00:00:60Z', badDate('second value is outside expected range of 0-59')],
  ['2026-01-01T00:00:00+24:00', badDate('invalid timezone')],
  ['2026-01-01T00:00:00+05', badDate('invalid timezone')],
  ['2026-01-01T00:00:00 Z', badDate('invalid timezone')],
  ['2026-01-01T00:00:00Zulu', badDate('invalid timezone')],
  ['2026-01-01T', badDate('invalid time separator or digits')],
  ['2026-01-01T0:0:0Z', badDate('invalid time separator or digits')],
  ['2026-01-01T00:00:00', noOffset],
  ['2026-01-01 00:00:00.123', noOffset],
]

export const badUrl: BadValues = [
  ...[null, 0, true, [], {}].map((value) => [value, notString] as const),
  ...[
    ...['', 'x', '/hook', 'https://', 'https://a b/', 'https://127.0.0.1:99999/'],
    ...['https:127.0.0.1', 'https:/127.0.0.1', 'https:///127.0.0.1/hook', 'HTTPS:127.0.0.1'],
    ...['https:\\\\127.0.0.1', 'https:/\\127.0.0.1', 'https://127.0.0.1\\hook'],
    ...['https://127.0.0.1/a\\b', 'https://127.0.0.1/?a=\\', 'https://8.8.8.8\\@127.0.0.1/'],
    ...['https://127.0.0.1:0/', 'https://127.0.0.1:00', 'https://[::1]:0/'],
  ].map((value) => [value, notUrl] as const),
  ...[
    'http://127.0.0.1/',
    'http:127.0.0.1',
    'http:\\\\127.0.0.1',
    'ftp://127.0.0.1/',
    'javascript:alert(1)',
    'file:///etc/passwd',
  ].map((value) => [value, notHttps] as const),
  [`https://127.0.0.1/${'x'.repeat(2083)}`, urlTooLong],
  ['https://user@127.0.0.1/', valueError('URL must not carry a user name or password')],
  ['https://:secret@127.0.0.1/', valueError('URL must not carry a user name or password')],
  ['https://127.0.0.1/#part', valueError('URL must not carry a fragment')],
  ['https://127.0.0.1/#', valueError('URL must not carry a fragment')],
]
