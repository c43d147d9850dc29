// Lines of a text that arrives in chunks.

const LINE_END = /\r\n|\n|\r/

/**
 * Yields for each chunk, of which none is empty, the lines that it completes, whatever ends them: LF, CRLF or CR. Many
 * at once, because a million single steps of an async iterator take longer than reading what they bring.
 */
export async function* linesOf(chunks: AsyncIterable<string>): AsyncGenerator<string[]> {
  let begun = ''
  let afterCr = false
  for await (const chunk of chunks) {
    const text = afterCr && chunk.startsWith('\n') ? chunk.slice(1) : chunk
    afterCr = chunk.endsWith('\r')
    const lines = text.split(LINE_END)
    lines[0] = begun + lines[0]
    begun = lines.pop() ?? ''
    yield lines
  }
  if (begun !== '') yield [begun]
}
