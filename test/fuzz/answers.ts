// HTTP answers read strictly off a connection: what is not one answer after another, each of its stated length, throws.

import assert from 'node:assert/strict'

export type Answer = { status: number; headers: Headers; body: string }

const STATUS_LINE = /^HTTP\/1\.1 (\d{3}) [\x20-\x7e]*$/
const HEADER_LINE = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+): ?([\t\x20-\x7e]*)$/

/**
 * Takes the first whole answer from `text` (latin1). Null when its end is still to come. The answer to a HEAD has no
 * body, whatever its length says. Throws when this is not HTTP.
 */
export function takeAnswer(text: string, isHead = false): { answer: Answer; rest: string } | null {
  const end = text.indexOf('\r\n\r\n')
  if (end < 0) return null
  const [first = '', ...lines] = text.slice(0, end).split('\r\n')
  const status = Number(STATUS_LINE.exec(first)?.[1])
  assert.ok(status >= 100, `a status line: ${JSON.stringify(text.slice(0, 200))}`)
  const headers = new Headers()
  for (const line of lines) {
    const [, name, value] = HEADER_LINE.exec(line) ?? []
    assert.ok(name !== undefined && value !== undefined, `a header line: ${JSON.stringify(line)}`)
    headers.append(name, value)
  }
  if (status < 200) return { answer: { status, headers, body: '' }, rest: text.slice(end + 4) }
  // A head that is too large is refused before it is known to be that of a HEAD.
  const length = isHead && status !== 431 ? '0' : headers.get('content-length')
  assert.match(length ?? '', /^\d+$/, `one length: ${JSON.stringify(text.slice(0, end))}`)
  const from = end + 4
  const to = from + Number(length)
  if (text.length < to) return null
  const body = Buffer.from(text.slice(from, to), 'latin1').toString('utf8')
  return { answer: { status, headers, body }, rest: text.slice(to) }
}

/** All answers of a connection that is over. Throws when something is left that is not an answer. */
export function allAnswers(text: string): Answer[] {
  const answers: Answer[] = []
  for (let left = text; left !== ''; ) {
    const taken = takeAnswer(left)
    assert.ok(taken, `a whole answer: ${JSON.stringify(left.slice(0, 200))}`)
    answers.push(taken.answer)
    left = taken.rest
  }
  return answers
}
