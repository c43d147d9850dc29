// Finds steps of a transaction (src/store/transaction.ts) that are made and not reached, for the test of the house
// rules. A statement that only makes a step compiles and does nothing.

import ts from 'typescript-5'

export type Source = { file: string; text: string }

/** Where a call that makes a step, such as `tx.run(...)` or `addAudit(...)`, has its answer thrown away. */
export function forgottenSteps(sources: readonly Source[]): string[] {
  const trees = sources.map(({ file, text }) => ts.createSourceFile(file, text, ts.ScriptTarget.ESNext, true))
  const makers = new Set(trees.flatMap((tree) => nodesOf(tree).flatMap(makerOf)))
  return trees.flatMap((tree) =>
    nodesOf(tree)
      .filter((node) => ts.isCallExpression(node) && isStep(node, makers) && isThrownAway(node))
      .map((node) => {
        const { line } = tree.getLineAndCharacterOfPosition(node.getStart())
        return `${tree.fileName}:${line + 1}: ${node.getText().split('\n')[0]}`
      }),
  )
}

const nodesOf = (node: ts.Node): ts.Node[] => [node, ...node.getChildren().flatMap(nodesOf)]

/** The name of a function that is a generator, or says that it returns a step. */
function makerOf(node: ts.Node): string[] {
  if (!ts.isFunctionLike(node)) return []
  const makes =
    ('asteriskToken' in node && node.asteriskToken !== undefined) ||
    /^Steps?</.test(node.type?.getText() ?? '')
  const named = node.name ?? (ts.isVariableDeclaration(node.parent) ? node.parent.name : undefined)
  return makes && named ? [named.getText()] : []
}

function isStep({ expression }: ts.CallExpression, makers: ReadonlySet<string>): boolean {
  if (ts.isPropertyAccessExpression(expression)) return expression.expression.getText() === 'tx'
  return makers.has(expression.getText())
}

/** Whether nothing takes the value: it is a statement, or one of the ways in which a statement may end. */
function isThrownAway(node: ts.Node): boolean {
  const { parent } = node
  if (ts.isExpressionStatement(parent) || ts.isVoidExpression(parent)) return true
  if (ts.isArrowFunction(parent)) return /\.forEach$/.test(calleeOf(parent.parent))
  const passesOn =
    ts.isParenthesizedExpression(parent) ||
    (ts.isConditionalExpression(parent) && parent.condition !== node) ||
    (ts.isBinaryExpression(parent) && PASSES_ON.includes(parent.operatorToken.kind))
  return passesOn && isThrownAway(parent)
}

const calleeOf = (node: ts.Node): string => (ts.isCallExpression(node) ? node.expression.getText() : '')

const PASSES_ON = [
  ts.SyntaxKind.AmpersandAmpersandToken,
  ts.SyntaxKind.BarBarToken,
  ts.SyntaxKind.QuestionQuestionToken,
  ts.SyntaxKind.CommaToken,
]
