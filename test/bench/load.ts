// The load, in a process of its own: autocannon, with the connections of the job. Each job is one turn.

import { readFileSync } from 'node:fs'
import autocannon from 'autocannon'
import { serveJobs } from './helper.ts'

/** So many calls, each made once; `$ID` in a path or a body is a line of the file `ids`. */
export type LoadJob = {
  url: string
  connections: number
  method: 'GET' | 'POST'
  path: string
  key: string
  body?: string
  calls: number
  /** The lines are those from `from` on. */
  ids?: string
  from?: number
}

/** `errors` are calls without an answer, or with another status than 200. */
export type LoadDone = { answered: number; errors: number; seconds: number }

async function load(job: LoadJob): Promise<LoadDone> {
  const { url, connections, method, path, key, body, calls, ids, from = 0 } = job
  const lines = ids === undefined ? null : readFileSync(ids, 'utf8').split('\n')
  let next = from
  /** Makes a request that differs each time. */
  const setupRequest = (request: autocannon.Request): autocannon.Request => {
    const id = lines?.[next++] ?? ''
    const filled = { ...request, path: path.replace('$ID', id) }
    return body === undefined ? filled : { ...filled, body: body.replaceAll('$ID', id) }
  }
  const json = body === undefined ? {} : { 'content-type': 'application/json' }
  let begun = 0
  let ended = 0
  let [answered, refused] = [0, 0]
  const request = { method, path, ...(body !== undefined && { body }), ...(lines && { setupRequest }) }
  const { errors, timeouts } = await new Promise<autocannon.Result>((resolve, reject) => {
    const options = {
      url,
      connections,
      headers: { authorization: `Bearer ${key}`, ...json },
      requests: [request as autocannon.Request],
      // A turn ends at autocannon's next sample: often, since it is idle until then.
      sampleInt: 50,
      amount: calls,
      // In seconds: a machine that is shared may stall for ten.
      timeout: 60,
    }
    const run = autocannon(options, (error, result) => (error ? reject(error) : resolve(result)))
    run.on('start', () => {
      begun = performance.now()
    })
    run.on('response', (_client, status) => {
      ended = performance.now()
      if (status === 200) answered += 1
      else refused += 1
    })
  })
  return {
    answered,
    errors: errors + timeouts + refused + Math.max(0, calls - answered - refused),
    seconds: (ended - begun) / 1000,
  }
}

serveJobs(load)
