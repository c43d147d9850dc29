// The functions of a file and how long they are, read as text, for the test of the house rules.

/**
 * The functions with a block body. The formatter puts a body's closing brace at the indentation of the line that opens
 * it, so no parser is needed. A function's own lines are those that are in no function inside it: a factory of
 * short functions is short.
 */
export function functionsOf(text: string): { head: string; own: number }[] {
  const lines = text.split('\n')
  const spans = lines.flatMap((line, start) => {
    const opens =
      /^(\s*)(?!\s|(?:\} )?(?:if|for|while|switch|catch|else|try|do)\b).*(?:=>|\)(?:: [^=]+)?) \{$/.exec(line)
    if (!opens) return []
    const length = lines.slice(start + 1).findIndex((other) => other.startsWith(`${opens[1]}}`))
    return [{ head: line.trim(), start, end: start + 1 + length }]
  })
  return spans.map(({ head, start, end }) => {
    const inside = spans.filter((other) => other.start > start && other.end < end)
    const covered = new Set(inside.flatMap((other) => range(other.start, other.end)))
    return { head, own: end - start + 1 - covered.size }
  })
}

const range = (from: number, to: number): number[] =>
  Array.from({ length: to - from + 1 }, (_, i) => from + i)
