// Random changes to a file: one token of its code or of its SQL, and whether the result compiles.

import { join } from 'node:path'
import ts from 'typescript-5'

/** `text` replaces the characters from `start` to `end`; `what` describes the effect in short. */
export type Change = { start: number; end: number; text: string; what: string }

/** Every change that can be made to a file. Words for users, comments, types and imports are left alone. */
export function changesOf(file: string, text: string): Change[] {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.ESNext, true)
  const mayHaveSql = file.startsWith('src/store/')
  const found: Change[] = []
  const replace = (node: ts.Node, by: string, what: string): void => {
    found.push({ start: node.getStart(source), end: node.end, text: by, what })
  }
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node) || ts.isTypeNode(node)) return
    if (ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node)) return
    if (ts.isStringLiteralLike(node) || ts.isTemplateExpression(node)) {
      if (!mayHaveSql || !isSql(wordsOf(node))) return
      found.push(...partsOf(node, source).flatMap((part) => sqlChanges(text, part)))
    }
    changeCode(node, source, replace)
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}

type Replace = (node: ts.Node, by: string, what: string) => void

/** Each of a pair becomes the other. */
const swaps = (...pairs: `${string} ${string}`[]) =>
  new Map(
    pairs
      .map((pair) => pair.split(' '))
      .flatMap(([a = '', b = '']): [string, string][] => [
        [a, b],
        [b, a],
      ]),
  )

const OPERATORS = swaps('< <=', '> >=', '=== !==', '+ -', '* /', '+= -=', '&& ||')
const NAMES = swaps('min max', 'some every', 'find findLast', 'floor ceil')

function changeCode(node: ts.Node, source: ts.SourceFile, replace: Replace): void {
  const textOf = (one: ts.Node): string => one.getText(source)
  const swap = (one: ts.Node, by: string | undefined): void => {
    if (by !== undefined) replace(one, by, `${textOf(one)} becomes ${by}`)
  }
  if (ts.isBinaryExpression(node)) swap(node.operatorToken, OPERATORS.get(textOf(node.operatorToken)))
  else if (isFallback(node)) return
  else if (ts.isNumericLiteral(node) && !isSize(node)) swap(node, String(Number(node.text) + 1))
  else if (ts.isBigIntLiteral(node)) swap(node, `${BigInt(node.text.slice(0, -1)) + 1n}n`)
  else if (node.kind === ts.SyntaxKind.TrueKeyword) swap(node, 'false')
  else if (node.kind === ts.SyntaxKind.FalseKeyword) swap(node, 'true')
  else if (ts.isPrefixUnaryExpression(node) && node.operator === ts.SyntaxKind.ExclamationToken)
    replace(node, textOf(node.operand), 'a not goes')
  else if (ts.isPropertyAccessExpression(node) && ts.isCallExpression(node.parent))
    swap(node.name, NAMES.get(node.name.text))
  else if (isDroppable(node)) replace(node, ';', 'a statement goes')
  if (ts.isCallExpression(node) && !TAKES_ANY_ORDER.test(textOf(node.expression)))
    swapArguments(node.arguments, textOf, replace)
}

/** A number after `??`: nearly all are there for the compiler, which does not know that an index is in range. */
const isFallback = (node: ts.Node): boolean =>
  (ts.isNumericLiteral(node) || ts.isBigIntLiteral(node)) &&
  ts.isBinaryExpression(node.parent) &&
  node.parent.right === node &&
  node.parent.operatorToken.kind === ts.SyntaxKind.QuestionQuestionToken

/** Functions whose arguments can be swapped without effect. */
const TAKES_ANY_ORDER = /\b(?:max|min|later|earlier|lesser|greater)$/

/** The size of a page, a cache or a queue: one more of many changes nothing. */
const isSize = (node: ts.NumericLiteral): boolean =>
  Number(node.text) > 100 &&
  ts.isVariableDeclaration(node.parent) &&
  /^[A-Z_]+$/.test(node.parent.name.getText())

/** A call or an assignment whose value nobody uses, or an early exit under a condition. */
function isDroppable(node: ts.Node): boolean {
  if (!ts.isBlock(node.parent ?? node)) return false
  if (ts.isExpressionStatement(node)) return !ts.isVoidExpression(node.expression)
  if (!ts.isIfStatement(node) || node.elseStatement) return false
  const { thenStatement: then } = node
  return ts.isReturnStatement(then) || ts.isThrowStatement(then) || ts.isContinueStatement(then)
}

function swapArguments(
  given: ts.NodeArray<ts.Expression>,
  textOf: (node: ts.Node) => string,
  replace: Replace,
): void {
  for (const [at, one] of given.entries()) {
    const other = given[at + 1]
    if (!other || ![one, other].every(isPlain) || textOf(one) === textOf(other)) continue
    // A change is one range: the two arguments and the text between them.
    const between = one.getSourceFile().text.slice(one.end, other.getStart())
    const both = { getStart: () => one.getStart(), end: other.end } as ts.Node
    replace(both, `${textOf(other)}${between}${textOf(one)}`, 'two arguments are swapped')
  }
}

const isPlain = (node: ts.Node): boolean =>
  ts.isIdentifier(node) || ts.isPropertyAccessExpression(node) || ts.isNumericLiteral(node)

/** The words of a text, with a question mark for each expression in it. */
function wordsOf(node: ts.StringLiteralLike | ts.TemplateExpression): string {
  if (ts.isStringLiteralLike(node)) return node.text
  return node.head.text + node.templateSpans.map(({ literal }) => `?${literal.text}`).join('')
}

type Part = { start: number; end: number }

/** The ranges of a text's words in the file, between its quotes and its expressions. */
function partsOf(node: ts.StringLiteralLike | ts.TemplateExpression, source: ts.SourceFile): Part[] {
  const pieces = ts.isStringLiteralLike(node)
    ? [node]
    : [node.head, ...node.templateSpans.map(({ literal }) => literal)]
  return pieces.map((piece) => ({
    start: piece.getStart(source) + 1,
    end: piece.end - (ts.isTemplateHead(piece) || ts.isTemplateMiddle(piece) ? 2 : 1),
  }))
}

const CLEARLY_SQL =
  /\b(?:select\b[\s\S]+\bfrom\b|insert (?:or \w+ )?into|delete from|update \w+[\s\S]+\bset\b|order by|group by|on conflict|case when|is (?:not )?null\b|not exists)/
const HAS_CONDITION = /[<>=]|\b(?:and|or|in|between|then|min|max|sum|coalesce)\b/
const HAS_COLUMN = /\b[a-z]+_[a-z_]+\b|\b[a-z]\.[a-z]+\b|:[a-z]/

/** Patterns of a sentence, and of a setting. */
const NO_STATEMENT = /(?:^|[.:] |\()[A-Z][a-z]|[.!]\s*$|: [a-z]|, and |; still |`|^\w+ = [\w?-]+$/

/** A part of a statement has columns and compares them. */
function isSql(text: string): boolean {
  if (NO_STATEMENT.test(text)) return false
  return CLEARLY_SQL.test(text) || (HAS_CONDITION.test(text) && HAS_COLUMN.test(text))
}

/** The replacement of a word of SQL, given the text before it; null where it must stay. */
type Rule = [pattern: RegExp, by: (word: string, before: string) => string | null]

const other = (pairs: Record<string, string>) => (word: string) => pairs[word] ?? null
const isAssigned = (before: string): boolean =>
  /\bset\b/.test(before) && !/\b(?:where|when|and|or|on)\b/.test(before.slice(before.lastIndexOf(' set ')))

const RULES: Rule[] = [
  [/<=|>=|<>|(?<![-<>=!])[<>](?![=>])/g, other({ '<=': '<', '>=': '>', '<>': '=', '<': '<=', '>': '>=' })],
  [/(?<![<>=!])=(?![=>])/g, (_, before) => (isAssigned(before) ? null : '<>')],
  [/\band\b/g, (_, before) => (/\bbetween\s+\S+\s+$/.test(before) ? null : 'or')],
  [/\bor\b/g, (_, before) => (/\b(?:insert|update|create|delete)\s+$/.test(before) ? null : 'and')],
  [/\bnot (?=null|exists|in\b|between)/g, () => ''],
  [/\bis (?=null\b)/g, () => 'is not '],
  [
    /\b(?:min|max|least|greatest)(?=\()/g,
    other({ min: 'max', max: 'min', least: 'greatest', greatest: 'least' }),
  ],
  [/ desc\b/g, () => ''],
  [/\border by [\w.]+(?= limit|,|\)|\s*$)/g, (words) => `${words} desc`],
  // The value that `exists` selects does not matter, nor does the number of rows found where one is read.
  [/(?<![\w:.$?'-]|\bselect |\blimit )\d+(?![\w.'])/g, (number) => String(Number(number) + 1)],
  [/(?<= )[+-](?= )/g, other({ '+': '-', '-': '+' })],
  [/(?<!is |not )\bdistinct /g, () => ''],
  [/\bunion all\b/g, () => 'union'],
  [/\bleft join\b/g, () => 'join'],
  [/(?<![:\w])(?:usd|btc)_amount\b/g, other({ usd_amount: 'btc_amount', btc_amount: 'usd_amount' })],
  [/(?<![:\w])(?:spent|reserved)\b/g, other({ spent: 'reserved', reserved: 'spent' })],
  [/(?<=\()(:?[\w.]+), (:?[\w.]+)(?=[,)])/g, (words) => words.split(', ').toReversed().join(', ')],
]

function sqlChanges(text: string, { start, end }: Part): Change[] {
  const sql = text.slice(start, end)
  return RULES.flatMap(([pattern, by]) =>
    [...sql.matchAll(pattern)].flatMap(({ 0: word, index }) => {
      const next = by(word, sql.slice(0, index))
      if (next === null || next === word) return []
      const what = `SQL: ${word.trim()} ${next === '' ? 'goes' : `becomes ${next.trim()}`}`
      return [{ start: start + index, end: start + index + word.length, text: next, what }]
    }),
  )
}

/**
 * Returns a check whether a file compiles with another text. This library is older than the current compiler: its
 * errors in the unchanged file do not count.
 */
export function compilerOf(root: string): (file: string, text: string) => boolean {
  const host: ts.ParseConfigFileHost = { ...ts.sys, onUnRecoverableConfigFileDiagnostic: () => {} }
  const config = ts.getParsedCommandLineOfConfigFile(join(root, 'tsconfig.json'), {}, host)
  if (!config) throw new Error('tsconfig.json cannot be read')
  let changed = { path: '', text: '', version: 0 }
  const textOf = (path: string) => (path === changed.path ? changed.text : ts.sys.readFile(path))
  const service = ts.createLanguageService({
    getCompilationSettings: () => ({ ...config.options, noUnusedLocals: false, noUnusedParameters: false }),
    getScriptFileNames: () => config.fileNames.filter((name) => name.startsWith(join(root, 'src/'))),
    getScriptVersion: (path) => (path === changed.path ? String(changed.version) : ''),
    getScriptSnapshot: (path) => ts.ScriptSnapshot.fromString(textOf(path) ?? ''),
    getCurrentDirectory: () => root,
    getDefaultLibFileName: ts.getDefaultLibFilePath,
    fileExists: ts.sys.fileExists,
    readFile: ts.sys.readFile,
  })
  const flaws = (path: string, text: string): number => {
    changed = { path, text, version: changed.version + 1 }
    return service.getSyntacticDiagnostics(path).length + service.getSemanticDiagnostics(path).length
  }
  return (file, text) => {
    const path = join(root, file)
    return flaws(path, text) <= flaws(path, ts.sys.readFile(path) ?? '')
  }
}
