// The partner's side over HTTP: polls for everything that is due, one page after the other.

import type { Server } from './loading.ts'

export type Polled = { ids: string[]; timesMs: number[] }

/** Polls until nothing remains. Throws on any answer but 200. */
export async function pollAll({ url }: Pick<Server, 'url'>, key: string): Promise<Polled> {
  const polled: Polled = { ids: [], timesMs: [] }
  for (;;) {
    const begun = performance.now()
    const response = await fetch(`${url}/partner/v1/executions/due`, {
      headers: { authorization: `Bearer ${key}` },
    })
    const page = (await response.json()) as { execution_id: string }[]
    polled.timesMs.push(performance.now() - begun)
    if (response.status !== 200) throw new Error(JSON.stringify(page))
    for (const { execution_id } of page) polled.ids.push(execution_id)
    if (response.headers.get('x-due-remaining') === '0') return polled
  }
}
