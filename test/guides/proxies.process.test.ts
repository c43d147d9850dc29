// The proxies of deploy/, as written there but for places and names, in front of the service.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import type { IncomingHttpHeaders } from 'node:http'
import { request } from 'node:https'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { connect } from 'node:tls'
import { createApp } from '../../src/http/app.ts'
import { listenOn } from '../../src/http/listen.ts'
import { createOps } from '../../src/http/ops/endpoints.ts'
import { createMetrics, EXPOSITION_TYPE } from '../../src/http/ops/metrics.ts'
import { silentLog } from '../../src/log.ts'
import { machine } from '../../src/machine.ts'
import { makeCertificate } from '../support/certificate.ts'
import { temporaryFolder } from '../support/database.ts'
import { hasOwnMachine, outOfOwnMachine } from '../support/machines.ts'
import { notDelivered, startService, USER } from '../support/service.ts'
import { hasTool } from '../support/tools.ts'
import { freePort } from '../support/within.ts'

const [NGINX, CADDY] = ['nginx.conf', 'Caddyfile'].map((name) =>
  readFileSync(join(import.meta.dirname, '../../deploy', name), 'utf8'),
) as [string, string]
const TOKEN = 'opensesame-opensesame'
/** The guide's limits of 10 s and 60 s, shortened for the test. */
const SHORT = '1s'

type Service = { key: string; place: string; heard: Headers[]; hang: (path: string) => void }
type Place = { port: number; folder: string; upstream: string }
type Asked = { headers?: Record<string, string>; body?: string; method?: string }
type Proxy = {
  tool: 'nginx' | 'caddy'
  write: (place: Place) => string
  argv: (file: string, folder: string) => string[]
  /** The answers to a body that is too long. */
  refusals: number[]
}
type Answer = { status: number; body: string; headers: IncomingHttpHeaders }

/** The service with operations behind a token, which records the headers that reach it and may hang at a path. */
async function startListened(t: TestContext): Promise<Service> {
  const { store, key } = await startService(t)
  const { clock } = machine
  const ops = createOps({ clock, metrics: createMetrics(), exposition: EXPOSITION_TYPE, token: TOKEN })
  await ops.opened(store)
  const guard = { checkUrl: async () => {} }
  const app = createApp({ store, machine, guard, send: notDelivered, log: silentLog, rateLimit: null, ops })
  const heard: Headers[] = []
  let hanging = ''
  const fetch = async (asked: Request): Promise<Response> => {
    heard.push(asked.headers)
    return new URL(asked.url).pathname === hanging ? new Promise(() => {}) : app.fetch(asked)
  }
  const listener = await listenOn({ fetch }, { host: '127.0.0.1', port: 0, tls: null, uuid: machine.uuid })
  t.after(async () => {
    listener.end()
    await listener.close()
  })
  return { key, heard, place: new URL(listener.url).host, hang: (path) => (hanging = path) }
}

/** Replaces each text, which must be present. */
function placed(block: string, replacements: [text: string, by: string][]): string {
  return replacements.reduce((text, [from, to]) => {
    assert.ok(text.includes(from), `${from} in the block`)
    return text.replaceAll(from, to)
  }, block)
}

const nginxBodies = (folder: string): string =>
  ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${folder};`).join(' ')

const nginxFile = ({ port, folder, upstream }: Place): string => {
  const block = placed(NGINX, [
    ['server 127.0.0.1:8080;', `server ${upstream};`],
    ['listen 443 ssl;', `listen 127.0.0.1:${port} ssl;`],
    ['listen 80;', `listen unix:${folder}/80;`],
    ['/etc/letsencrypt/live/api.example.com/fullchain.pem', `${folder}/cert.pem`],
    ['/etc/letsencrypt/live/api.example.com/privkey.pem', `${folder}/key.pem`],
    ['client_header_timeout 10s', `client_header_timeout ${SHORT}`],
    ['proxy_read_timeout 60s', `proxy_read_timeout ${SHORT}`],
  ])
  return `daemon off; pid ${folder}/pid; error_log ${folder}/log; events {}
    http { access_log off; ${nginxBodies(folder)} ${block} }`
}

const caddyFile = ({ port, folder, upstream }: Place): string =>
  placed(CADDY, [
    ['{\n\tservers {', `{\n\tadmin off\n\tauto_https off\n\tstorage file_system ${folder}\n\tservers {`],
    ['api.example.com {', `https://127.0.0.1:${port} {\n\ttls ${folder}/cert.pem ${folder}/key.pem`],
    ['127.0.0.1:8080', upstream],
    ['read_header 10s', `read_header ${SHORT}`],
    ['response_header_timeout 60s', `response_header_timeout ${SHORT}`],
  ])

const PROXIES: Proxy[] = [
  {
    tool: 'nginx',
    write: nginxFile,
    argv: (file: string, folder: string) => ['-p', folder, '-c', file],
    refusals: [413],
  },
  {
    tool: 'caddy',
    write: caddyFile,
    argv: (file: string) => ['run', '--adapter', 'caddyfile', '--config', file],
    // It streams a body: serve may hang up before the proxy has seen that it is too long.
    refusals: [413, 502],
  },
]

/** Starts on a free port; if another test takes it before the proxy can, on the next one. */
async function started<A extends (path: string) => Promise<Answer>>(
  start: (port: number) => A,
): Promise<{ ask: A; port: number }> {
  for (;;) {
    const port = await freePort()
    const ask = start(port)
    const until = performance.now() + START_MAX_MS
    while (performance.now() < until) {
      if ((await ask('/healthz').catch(() => null))?.status === 200) return { ask, port }
      await pause(50)
    }
  }
}
const START_MAX_MS = 20_000

for (const { tool, write, argv, refusals } of PROXIES)
  test(`${tool}: the API goes through and operations do not, within bounds`, async (t) => {
    if (!hasTool(t, tool)) return
    const service = await startListened(t)
    const [folder, { cert, key }] = [temporaryFolder(t), makeCertificate()]
    writeFileSync(join(folder, 'cert.pem'), cert)
    writeFileSync(join(folder, 'key.pem'), key)
    const start = (port: number) => {
      writeFileSync(join(folder, 'conf'), write({ port, folder, upstream: service.place }))
      startProxy(t, tool, argv(join(folder, 'conf'), folder), folder)
      return (path: string, asked: Asked = {}) => askOver({ port, cert }, path, asked)
    }
    const { ask, port } = await started(start)

    const known = { authorization: `Bearer ${service.key}` }
    assert.equal((await ask('/readyz')).body, '{"ready":true}')
    assert.equal((await ask('/openapi.json')).status, 200)
    const browsed = await ask('/', { headers: { accept: 'text/html' } })
    assert.deepEqual([browsed.status, browsed.headers.location], [302, 'docs'])
    const linking = { method: 'POST', headers: known, body: JSON.stringify(USER) }
    assert.equal((await ask('/partner/v1/users', linking)).status, 200)
    const disabling = { method: 'PATCH', headers: known, body: '{"status":"disabled"}' }
    const odd = await ask('/partner/v1/users/a%2Fb', disabling)
    assert.deepEqual([odd.status, JSON.parse(odd.body)], [404, { detail: 'Partner user not found.' }])

    const token = { authorization: `Bearer ${TOKEN}` }
    const paths = ['/metrics', '/ops', '/metrics?x=/partner/v1/', '//metrics', '/docs/../metrics']
    const detours = ['../../metrics', '%2e%2e/%2e%2e/metrics', '..\\..\\metrics']
    for (const path of [...paths, ...detours.map((detour) => `/partner/v1/${detour}`)]) {
      const { status, body } = await ask(path, { headers: token })
      assert.ok([400, 401, 404].includes(status), `${path} ${status}`)
      assert.ok(!body.includes('tranche_'), path)
    }

    service.heard.length = 0
    const spoofed = { ...known, 'x-forwarded-for': '10.9.8.7' }
    assert.equal((await ask('/partner/v1/me', { headers: spoofed })).status, 200)
    assert.equal(service.heard[0]?.get('x-forwarded-for'), '127.0.0.1')

    const large = (bytes: number) =>
      ask('/partner/v1/users', { method: 'POST', headers: known, body: 'x'.repeat(bytes) })
    assert.match((await large(65 * 1024)).body, /"Request body is larger than 65536 bytes\."/)
    assert.ok(refusals.includes((await large(200 * 1024)).status))

    service.hang('/partner/v1/me')
    const [slow] = await Promise.all([ask('/partner/v1/me', { headers: known }), cutOff(port, cert)])
    assert.equal(slow.status, 504)
  })

test('nginx takes the block as it is pasted, beside the site of Debian, and answers the challenge', async (t) => {
  if (!hasTool(t, 'nginx') || !hasOwnMachine(t)) return
  const out = await outOfOwnMachine(
    t,
    `mkdir -p /var/log/nginx /var/lib/nginx /etc/letsencrypt/live/api.example.com
    (cd /etc/letsencrypt/live/api.example.com
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=x -keyout privkey.pem -out fullchain.pem 2> /dev/null)
    cat > /etc/nginx/conf.d/tranche.conf <<'END'
${NGINX}END
    nginx -t 2>&1
    ip link set lo up; nginx
    ask() { curl -s -o /dev/null -w '%{http_code} %{redirect_url}\n' -H 'Host: api.example.com' "http://127.0.0.1$1"; }
    mount -t tmpfs none /var/www; mkdir -p /var/www/html/.well-known/acme-challenge
    echo token > /var/www/html/.well-known/acme-challenge/it
    ask /.well-known/acme-challenge/it; ask /partner/v1/me`,
  )
  assert.deepEqual(out.trim().split('\n').slice(1), [
    'nginx: configuration file /etc/nginx/nginx.conf test is successful',
    '200 ',
    '301 https://api.example.com/partner/v1/me',
  ])
})

test('nginx with a plain proxy_pass, which adds no header at all, serves no operations to the world', async (t) => {
  if (!hasTool(t, 'nginx')) return
  const service = await startListened(t)
  const [port, folder] = [await freePort(), temporaryFolder(t)]
  const conf = `daemon off; pid ${folder}/pid; error_log ${folder}/log; events {}
    http { access_log off; ${nginxBodies(folder)}
      server { listen 127.0.0.1:${port}; location / { proxy_pass http://${service.place}; } } }`
  writeFileSync(join(folder, 'conf'), conf)
  startProxy(t, 'nginx', ['-p', folder, '-c', join(folder, 'conf')], folder)
  const ask = (path: string, headers = {}) => fetch(`http://127.0.0.1:${port}${path}`, { headers })
  while ((await ask('/healthz').catch(() => null))?.status !== 200) await pause(50)
  const ready = await ask('/readyz')
  assert.deepEqual([ready.status, await ready.json()], [200, { ready: true }])
  assert.equal((await ask('/metrics')).status, 401)
  assert.equal((await ask('/metrics', { authorization: `Bearer ${service.key}` })).status, 404)
  assert.equal((await ask('/metrics', { authorization: `Bearer ${TOKEN}` })).status, 200)
})

function startProxy(t: TestContext, tool: string, argv: readonly string[], folder: string): void {
  const child = spawn(tool, argv, {
    stdio: 'ignore',
    env: { PATH: process.env.PATH, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder },
  })
  const ended = once(child, 'close')
  t.after(async () => {
    // nginx ends its workers with it.
    child.kill('SIGTERM')
    await ended
  })
}

/** A single request over TLS, its path sent byte by byte as given. */
function askOver(
  { port, cert }: { port: number; cert: string },
  path: string,
  { headers = {}, body, method = 'GET' }: Asked,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const asked = request({ host: '127.0.0.1', port, path, method, headers, ca: cert }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk) => (text += chunk))
      response.on('end', () => {
        resolve({ status: response.statusCode ?? 0, body: text, headers: response.headers })
      })
    })
    // A proxy that refuses a body need not read it to its end.
    asked.on('error', reject)
    asked.end(body)
  })
}

/** Begins a request and never ends it: the proxy hangs up. */
async function cutOff(port: number, cert: string): Promise<void> {
  const socket = connect({ host: '127.0.0.1', port, ca: cert })
  socket.on('error', () => {}).resume()
  await once(socket, 'secureConnect')
  socket.write('GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n')
  await once(socket, 'close')
}
