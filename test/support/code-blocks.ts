// The code blocks of a page.

/** The code blocks of a language, in their order. */
export const blocksOf = (page: string, language: string): string[] =>
  [...page.matchAll(new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``, 'g'))].map(([, block = '']) => block)
