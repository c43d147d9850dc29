// Numbers as people read them, and a number with its noun.

/** 1234567.89 as 1,234,567.89. */
export function grouped(decimal: string | number): string {
  const [whole = '', fraction] = String(decimal).split('.')
  const marked = whole.replace(/\B(?=(\d{3})+$)/g, ',')
  return fraction === undefined ? marked : `${marked}.${fraction}`
}

/** A number and its noun. */
export const counted = (count: number, noun: string, plural = `${noun}s`): string =>
  `${grouped(count)} ${count === 1 ? noun : plural}`
