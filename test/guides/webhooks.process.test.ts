// The receivers that docs/webhooks.md points to, against real deliveries; and its worked example.

import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect } from 'node:net'
import { basename, join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { createServer } from 'node:tls'
import { isSignature, signatureOf } from '../../src/webhook/signature.ts'
import { makeAuthority } from '../support/certificate.ts'
import { temporaryFolder } from '../support/database.ts'
import { PYTHON, paste } from '../support/process.ts'
import { blocksOf } from '../support/samples.ts'
import { runHere } from '../support/service.ts'
import { freePort } from '../support/within.ts'
import { deliverer, deliveryTo, SECRET } from '../webhook/stage.ts'

const GUIDE = readFileSync(join(import.meta.dirname, '../../docs/webhooks.md'), 'utf8')

function blockOf(language: string, containing: string): string {
  const blocks = [...GUIDE.matchAll(/```(\w+)\n([\s\S]*?)```/g)]
  const found = blocks.find(([, of, text]) => of === language && text?.includes(containing))
  return found?.[2] ?? assert.fail(`no ${language} block with ${containing}`)
}

const EXAMPLES = join(import.meta.dirname, '../../docs/examples')

/** Each with a minimal partner around it. */
const RECEIVERS = [
  {
    receiver: 'javascript/wake-up.mjs',
    file: 'receiver.mjs',
    command: process.execPath,
    partner: `import { listenForWakeUps } from './wake-up.mjs'
      const { PORT, WEBHOOK_SECRET = '' } = process.env
      listenForWakeUps(Number(PORT), WEBHOOK_SECRET, () => console.log('poll'))`,
  },
  {
    receiver: 'python/wake_up.py',
    file: 'receiver.py',
    command: PYTHON,
    partner: [
      'import os, threading, wake_up',
      'port, secret = int(os.environ["PORT"]), os.environ["WEBHOOK_SECRET"]',
      'wake_up.listen_for_wake_ups(port, secret, lambda: print("poll", flush=True))',
      'threading.Event().wait()',
    ].join('\n'),
  },
]

/** Runs a receiver, and resolves once it listens. */
async function startReceiver(
  t: TestContext,
  { receiver, file, command, partner }: (typeof RECEIVERS)[number],
) {
  assert.ok(GUIDE.includes(`(examples/${receiver})`), 'the guide points to it')
  const folder = temporaryFolder(t)
  cpSync(join(EXAMPLES, receiver), join(folder, basename(receiver)))
  writeFileSync(join(folder, file), partner)
  const port = await freePort()
  const env = { PATH: process.env.PATH, WEBHOOK_SECRET: SECRET, PORT: String(port) }
  const child = spawn(command, [file], { cwd: folder, env, stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = once(child, 'close')
  t.after(async () => {
    child.kill('SIGKILL')
    await ended
  })
  let out = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text
  })
  while (!(await isOpen(port))) {
    assert.deepEqual([child.exitCode, child.signalCode], [null, null], `${file} ended before it listened`)
    await pause(10)
  }
  return {
    port,
    polls: () => out.split('\n').filter((line) => line === 'poll').length,
    polled: async () => {
      if (!out.includes('poll\n')) await once(child.stdout, 'data')
    },
  }
}

async function isOpen(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  const open = await once(socket, 'connect').then(
    () => true,
    () => false,
  )
  socket.destroy()
  return open
}

/** The proxy with the certificate that the guide puts in front: bytes in, bytes out. */
async function startFront(t: TestContext, behind: number) {
  const authority = makeAuthority(t)
  const server = createServer(authority.issue('IP:127.0.0.1'), (outer) => {
    const inner = connect(behind, '127.0.0.1')
    outer.on('error', () => inner.destroy())
    inner.on('error', () => outer.destroy())
    outer.pipe(inner).pipe(outer)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => void server.close())
  const { port } = server.address() as AddressInfo
  return { url: `https://127.0.0.1:${port}/hook`, caFile: authority.caFile }
}

suite('the receivers of the guide', { concurrency: true }, () => {
  for (const receiver of RECEIVERS)
    test(`${receiver.receiver} takes what is signed and nothing else`, async (t) => {
      // It answers without reading: a client that is still sending may not see the answer.
      const cuts = receiver.receiver.startsWith('python/')
      const { port, polls, polled } = await startReceiver(t, receiver)
      const { url, caFile } = await startFront(t, port)
      const send = deliverer({ caFile })
      const delivery = deliveryTo(url)
      const forged = { ...delivery, webhook: { ...delivery.webhook, secret: 'sse_whsec_another' } }
      assert.partialDeepStrictEqual(await send(forged), { statusCode: 401, reason: 'HTTP 401' })

      const body = '{"event":"executions.available"}'
      const signature = signatureOf(SECRET, body)
      const tampered: Record<string, [body: string, header: string | null]> = {
        'no signature': [body, null],
        'an empty signature': [body, ''],
        'a signature without prefix': [body, signature.slice(7)],
        'a signature of another body': [`${body} `, signature],
        'a signature that is not ASCII': [body, 'sha256=é'],
      }
      for (const [name, [sent, header]] of Object.entries(tampered)) {
        const headers = header === null ? {} : { 'x-service-signature': header }
        const { status } = await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', body: sent, headers })
        assert.equal(status, 401, name)
      }
      for (const bytes of [65_537, 200_000, 2_000_000]) {
        const huge = fetch(`http://127.0.0.1:${port}/`, { method: 'POST', body: 'x'.repeat(bytes) })
        const answered = await huge.then(({ status }) => status).catch(() => 'cut off')
        assert.ok(answered === 413 || (answered === 'cut off' && cuts), `${bytes} bytes: ${answered}`)
      }
      assert.equal(polls(), 0)

      assert.partialDeepStrictEqual(await send(delivery), { statusCode: 204, reason: null })
      await polled()
      assert.equal(polls(), 1)
    })
})

test("wake-ups on a machine of one's own, by copy and paste: a laptop in two commands, and real deliveries", async (t) => {
  const section =
    /## On your own machine\n[\s\S]*?(?=\n## )/.exec(GUIDE)?.[0] ?? assert.fail('no such section')
  const folder = temporaryFolder(t)
  const ports = { 8080: await freePort(), 9000: await freePort(), 9443: await freePort() }
  // In one pass: a free port may contain another one's digits, such as 39443.
  const ported = (text: string) =>
    text.replaceAll(/8080|9000|9443/g, (port) => String(ports[port as unknown as keyof typeof ports]))
  for (const file of ['receiver.mjs', 'front.mjs'])
    writeFileSync(join(folder, file), ported(blockOf('js', `// ${file}`)))
  const script = `trap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n${blocksOf(section, 'sh').join('\n')}\nwait`
  const env = {
    PATH: `${join(import.meta.dirname, '../../node_modules/.bin')}:${process.env.PATH}`,
    TRANCHE_PORT: String(ports[8080]),
  }
  const { code, out, err } = await paste(t, ported(script), { cwd: folder, env })
  assert.equal(code, 0, `${err}${out}`)
  assert.match(out, /Waiting for executions/)
  assert.match(out, /^\S+Z exec_[0-9a-f]{32} count 1 answered 204 in \d+ ms$/m)
  assert.match(out, /^poll$/m)
  assert.match(out, /"test":true,"count":0,.*"delivered":true/)
  assert.match(out, /"deliveries":\[\{[^}]*"test":false,"count":1,[^}]*\},\{[^}]*"test":true/)
  assert.match(out, /"webhooks_sent":1,"webhooks_failed":0/)
  // The second one may be on its way to the log when the receiver is stopped.
  assert.match(readFileSync(join(folder, 'receiver.log'), 'utf8'), /^(poll\n){1,2}$/)
})

test('the worked example of the guide is right, by openssl, by this product and by its verify', async (t) => {
  const shell = blockOf('sh', 'openssl dgst')
  const printed = execFileSync('sh', ['-euc', shell], { encoding: 'utf8' })
  const request = blockOf('http', 'X-Service-Signature')
  const signature = /^X-Service-Signature: (.*)$/m.exec(request)?.[1] ?? assert.fail('no signature')
  const body = request.trim().split('\n').at(-1) ?? ''
  const secret = /^SECRET=(.*)$/m.exec(shell)?.[1] ?? assert.fail('no secret')
  assert.equal(`sha256=${printed.trim().split(' ').at(-1)}`, signature)
  assert.ok(isSignature(signature, secret, body))
  const file = join(temporaryFolder(t), 'secret')
  writeFileSync(file, `${secret}\n`)
  const { code, out } = await runHere(
    ['webhook', 'verify', '--signature', signature, '--secret-file', file],
    { input: body },
  )
  assert.deepEqual([code, out], [0, 'valid\n'])
})
