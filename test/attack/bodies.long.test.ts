// Bodies of the size limit that are made to cost time: broken in every way, deep, wide, or one endless value. Processor
// time is compared with that of plain JSON of that size in the same run.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BODY_BYTES_MAX } from '../../src/http/request.ts'
import { PLANS, USERS, WEBHOOKS } from '../http/steps.ts'
import { PLAN, startService, USER } from '../support/service.ts'

/** In this many calls, at least one is undisturbed by the rest of the process, above all by the garbage collector. */
const ROUNDS = 20
const TIMES_MAX = 6

/** Repeats a text up to the size limit, between a beginning and an end. */
const filled = (begin: string, part: string, end = ''): string =>
  begin + part.repeat(Math.floor((BODY_BYTES_MAX - bytes(begin) - bytes(end)) / bytes(part))) + end

const bytes = Buffer.byteLength

const PLAIN = filled('{"a":[0', ',"x"', ']}')

/** An object with one field as long as the size limit. */
const withField = (object: object, field: string, part: string): string =>
  filled(`${JSON.stringify({ ...object, [field]: undefined }).slice(0, -1)},"${field}":"`, part, '"}')

const BROKEN: Record<string, string> = Object.fromEntries(
  [
    ...['{,', '{', '[', ']', '{"":', '[{', '"', '\\', '/*', '\u0000', '\ufeff', 'a', '0 ', '-', '1e'],
    ...['true ', '{}', '""', '"\n"', ' x', '\ud800'],
  ].map((part) => [JSON.stringify(part), filled('', part)]),
)
const CUT: Record<string, string> = {
  'commas in an object': filled('{', ','),
  'commas in a list': filled('[', ','),
  'an object that is cut': PLAIN.slice(0, -2),
  'numbers, then a comma too many': `${filled('{"a":[0', ',0').slice(0, -2)},]}`,
  'objects, then a comma too many': `${filled('{"a":[{}', ',{"b":1}').slice(0, -3)},]}`,
  'deep, then broken': filled('', '[', 'x'),
  'deep, and whole': `${'['.repeat(BODY_BYTES_MAX / 2)}${']'.repeat(BODY_BYTES_MAX / 2)}`,
  'deep objects, and whole': `${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}`,
  'a string that does not end': filled('{"a":"', 'x'),
  'escapes that do not end': filled('{"a":"', '\\u0041'),
  'broken escapes': filled('{"a":"', '\\x'),
  'after white space': filled('', ' ', 'x'),
}
const WHOLE: Record<string, string> = {
  'names of fields that are one letter': `{${Array.from({ length: 6_000 }, (_, at) => `"${at.toString(36)}":1`)}}`,
  'one name again and again': `{"a":1${',"a":1'.repeat(10_000)}}`,
  'names of a prototype': `{"a":1${',"__proto__":{}'.repeat(4_000)}}`,
  'a long name': filled('{"', 'x', '":1}'),
  'a name of control characters': filled('{"', '\\u0000', '":1}'),
  'a number of many digits': filled('{"a":', '9', '}'),
  'a number of many places': filled('{"a":0.', '9', '}'),
}

test('no body of the size limit takes more than a few times what plain JSON of that size takes', async (t) => {
  const service = await startService(t)
  /** The cheapest call, in microseconds of processor time; it stops calling once a call costs no more than `enough`. */
  const cost = async (path: string, body: string, enough = 0): Promise<number> => {
    let least = Number.POSITIVE_INFINITY
    for (let round = 0; round < ROUNDS && least > enough; round++) {
      const before = process.cpuUsage()
      const { status } = await service.call('POST', path, body)
      const { user, system } = process.cpuUsage(before)
      assert.ok(status === 200 || status === 400 || status === 422, `${status}`)
      least = Math.min(least, user + system)
    }
    return least
  }
  // The second call runs compiled code.
  await cost(USERS, PLAIN)
  const most = TIMES_MAX * (await cost(USERS, PLAIN))
  const bodies: [string, string, string][] = [
    ...Object.entries({ ...BROKEN, ...CUT, ...WHOLE }).map(([name, body]): [string, string, string] => [
      name,
      USERS,
      body,
    ]),
    ...['x', '0', '\\u0000', '-', ' ', '%'].flatMap((part): [string, string, string][] => [
      [`a user's field of ${part}`, USERS, withField(USER, 'consent_timestamp', part)],
      [`a plan's amount of ${part}`, PLANS, withField(PLAN, 'amount_usd', part)],
      [`a plan's id of ${part}`, PLANS, withField(PLAN, 'partner_plan_id', part)],
      [`a webhook's url of ${part}`, WEBHOOKS, withField({}, 'url', part).replace('{,', '{')],
    ]),
  ]
  const dear: string[] = []
  for (const [name, path, body] of bodies) {
    // V8 itself takes long to find that a text nested thousands deep is broken.
    const enough = most + 2 * parseCost(body)
    const took = await cost(path, body, enough)
    if (took > enough) dear.push(`${name}: ${took} of ${enough} microseconds`)
  }
  assert.deepEqual(dear, [])
})

/** The least time that JSON.parse alone takes, in microseconds. */
function parseCost(text: string): number {
  let least = Number.POSITIVE_INFINITY
  for (let round = 0; round < 5; round++) {
    const before = process.cpuUsage()
    try {
      JSON.parse(text)
    } catch {}
    const { user, system } = process.cpuUsage(before)
    least = Math.min(least, user + system)
  }
  return least
}
