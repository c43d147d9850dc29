// Questions that arrive in one turn of the event loop, answered together: looking once costs as much for one as for
// many.

type Asked<Q, A> = { question: Q; resolve: (answer: A) => void; reject: (error: unknown) => void }

/**
 * Each question is answered by what `answer` finds after it was asked, never before. `answer` gives as many answers as
 * there are questions, in their order; what it throws, all of them throw.
 */
export function askTogether<Q, A>(
  answer: (questions: readonly Q[]) => Promise<readonly A[]>,
): (question: Q) => Promise<A> {
  let waiting: Asked<Q, A>[] = []

  async function answerAll(): Promise<void> {
    const asked = waiting
    waiting = []
    try {
      const answers = await answer(asked.map(({ question }) => question))
      for (const [i, { resolve }] of asked.entries()) resolve(answers[i] as A)
    } catch (error) {
      for (const { reject } of asked) reject(error)
    }
  }

  return (question) =>
    new Promise((resolve, reject) => {
      if (waiting.length === 0) setImmediate(answerAll)
      waiting.push({ question, resolve, reject })
    })
}
