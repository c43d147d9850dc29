// A webhook's URL is shown on an operator's terminal: it may hold nothing that a terminal obeys.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startService } from '../support/service.ts'

test('a URL with characters that are not seen is refused', async (t) => {
  const service = await startService(t)
  const hidden = ['\u0000', '\u001b[31m', '\u009b2J', '\u202e', '\u2066', '\u200b', '\t', '\n', ' ', '\u00a0']
  for (const mark of hidden) {
    for (const url of [
      `https://127.0.0.1:9/a${mark}b`,
      `${mark}https://127.0.0.1:9/`,
      `https://127.0.0.1:9/${mark}`,
    ]) {
      const { status, body } = await service.call('POST', '/partner/v1/webhooks', { url })
      assert.equal(status, 422, JSON.stringify(url))
      assert.deepEqual([body.detail[0].type, body.detail[0].loc], ['url_parsing', ['body', 'url']])
    }
  }
  for (const url of ['https://@127.0.0.1:9/', 'https://:@127.0.0.1:9/']) {
    assert.equal((await service.call('POST', '/partner/v1/webhooks', { url })).status, 422, url)
  }
  const fine = await service.call('POST', '/partner/v1/webhooks', { url: 'https://127.0.0.1:9/ünï?a=b@c' })
  assert.equal(fine.status, 200)
})
