// Which lines of comments and of guides are too long, for the test of the house rules.

const LINE_CHARS_MAX = 120

/** As `file:line`. A line without a space to break it at, such as an address, may be as long as it is. */
const tooLong = (file: string, lines: readonly string[], counts: (line: string) => boolean): string[] =>
  lines.flatMap((line, at) =>
    line.length > LINE_CHARS_MAX && counts(line) && /\S \S/.test(line.replace(/^\s*\S{1,3} +/, ''))
      ? [`${file}:${at + 1}`]
      : [],
  )

export const longComments = (file: string, text: string): string[] =>
  tooLong(file, text.split('\n'), (line) => /^\s*(\/\/|\/\*|\*) /.test(line.replace('/**', '/*')))

/** Leaves out tables, headings, code, and what a program writes between `<!-- NAME -->` and `<!-- end -->`. */
export function longProse(file: string, text: string): string[] {
  let inCode = false
  let isGenerated = false
  return tooLong(file, text.split('\n').map(prose), () => true)

  function prose(line: string): string {
    if (/^\s*```/.test(line)) inCode = !inCode
    if (line.startsWith('<!-- ')) isGenerated = line !== '<!-- end -->'
    return inCode || isGenerated || /^\s*[|#]/.test(line) ? '' : line
  }
}
