// .ci/audit against a registry on this machine: what it lets pass, what it stops at, and what it says of silence.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { suite, type TestContext, test } from 'node:test'
import { temporaryFolder } from '../support/database.ts'
import { listen } from '../support/service.ts'

const SCRIPT = join(import.meta.dirname, '../../.ci/audit')
const BULK = '/-/npm/v1/security/advisories/bulk'

/**
 * Runs the script against a registry that answers the question for weaknesses with `answer`, and every other with 404.
 */
async function audit(t: TestContext, answer: { status: number; body: object }) {
  const asked: string[] = []
  const registry = createServer((request, response) => {
    request.resume().on('end', () => {
      asked.push(`${request.method} ${request.url}`)
      const { status, body } = request.url === BULK ? answer : { status: 404, body: {} }
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    })
  })
  const { port } = await listen(t, registry)
  const child = spawn(SCRIPT, [], {
    env: {
      PATH: process.env.PATH,
      npm_config_registry: `http://127.0.0.1:${port}/`,
      npm_config_cache: temporaryFolder(t),
      npm_config_update_notifier: 'false',
    },
  })
  const [[code], out, err] = await Promise.all([once(child, 'close'), text(child.stdout), text(child.stderr)])
  assert.ok(asked.includes(`POST ${BULK}`), asked.join())
  return { code, out, err }
}

const weak = (severity: string) => ({
  status: 200,
  body: {
    undici: [
      {
        id: 1,
        url: 'https://example.org/1',
        title: 'planted',
        severity,
        vulnerable_versions: '*',
        cwe: [],
        cvss: { score: 9, vectorString: null },
      },
    ],
  },
})

suite('audit', { concurrency: true }, () => {
  test('a weakness of high severity in what is shipped stops the build and is named', async (t) => {
    const { code, out, err } = await audit(t, weak('high'))
    assert.equal(code, 1, err)
    assert.match(out, /undici[\s\S]*planted/)
  })

  test('one of low severity lets it pass', async (t) => {
    const { code, out, err } = await audit(t, weak('low'))
    assert.deepEqual([code, err], [0, ''])
    assert.match(out, /no known weakness of high or critical severity/)
  })

  test('a registry that cannot be asked lets it pass, loudly', async (t) => {
    const { code, out, err } = await audit(t, { status: 405, body: {} })
    assert.deepEqual([code, out], [0, ''])
    assert.match(err, /^NOT AUDITED/)
  })
})
