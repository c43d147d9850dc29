// Lines of a text are the same however the text is cut into chunks.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { linesOf } from '../../src/price/history-file.ts'

/** Chunks as a stream has them: none is empty. */
async function* cut(text: string, places: readonly number[]): AsyncGenerator<string> {
  const edges = [0, ...places.map((place) => place % (text.length + 1)).sort((a, b) => a - b), text.length]
  for (const [i, edge] of edges.entries()) {
    const chunk = text.slice(edges[i - 1] ?? 0, edge)
    if (i > 0 && chunk !== '') yield chunk
  }
}

async function linesIn(text: string, places: readonly number[] = []): Promise<string[]> {
  const lines: string[] = []
  for await (const some of linesOf(cut(text, places))) lines.push(...some)
  return lines
}

test('LF, CRLF and CR end a line, and the last one needs no end', async () => {
  assert.deepEqual(await linesIn('a\nb\r\nc\rd'), ['a', 'b', 'c', 'd'])
  assert.deepEqual(await linesIn('a\n\r\n\r\rb\n'), ['a', '', '', '', 'b'])
  assert.deepEqual(await linesIn('\n'), [''])
  assert.deepEqual(await linesIn(''), [])
})

test('a line that chunks divide is one line, and so is an end of two characters', async () => {
  assert.deepEqual(await linesIn('time,price\r\n1,2\r\n', [2, 7, 11, 12, 13, 17]), ['time,price', '1,2'])
  assert.deepEqual(await linesIn('a\r\r\nb', [2, 3]), ['a', '', 'b'])
  const texts = fc.string({ unit: fc.constantFrom('a', ',', '\r', '\n'), maxLength: 40 })
  await fc.assert(
    fc.asyncProperty(texts, fc.array(fc.nat(), { maxLength: 12 }), async (text, places) => {
      assert.deepEqual(await linesIn(text, places), await linesIn(text))
    }),
    { numRuns: 500 },
  )
})
