// The contents of the executable, the files beside it that list them, whether others can reproduce it, and the audit of
// packages.

import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { cpSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { createServer } from 'node:http'
import { basename, dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { suite, type TestContext, test } from 'node:test'
import { bundle } from '../../bin/bundle.ts'
import { VIEWER } from '../../src/resources.ts'
import { temporaryFolder } from '../support/database.ts'
import { EXECUTABLE } from '../support/process.ts'
import { listen } from '../support/service.ts'

const ROOT = join(import.meta.dirname, '../..')
const DIST = dirname(EXECUTABLE)
const NAME = basename(EXECUTABLE)
const SBOM = `${NAME}.cdx.json`

type Component = {
  'bom-ref': string
  type: string
  group?: string
  name: string
  version: string
  purl: string
  hashes?: { alg: string; content: string }[]
  licenses?: ({ license: { id: string } } | { expression: string })[]
  components?: Component[]
}

const read = (file: string) => JSON.parse(readFileSync(file, 'utf8'))
const sha256 = (file: string): string => createHash('sha256').update(readFileSync(file)).digest('hex')
const OWN_HASH = sha256(EXECUTABLE)
const sbom: {
  metadata: { component: Component }
  components: Component[]
  dependencies: { ref: string; dependsOn: string[] }[]
} & Record<string, unknown> = read(join(DIST, SBOM))
const [node, ...packages] = sbom.components
const nameOf = ({ group, name }: Component): string => (group ? `${group}/${name}` : name)

/** The packages whose code a script has: the bundler writes the name of each module's file above it. */
function packagesIn(file: string): string[] {
  const remarks = readFileSync(file, 'utf8').matchAll(
    /\/\/ node_modules\/(?:[\w@./-]+\/node_modules\/)?((?:@[\w.-]+\/)?[\w.-]+)\//g,
  )
  return [...remarks].map(([, name = '']) => name)
}

suite('supply chain', () => {
  test('the list of contents names every package whose code is in the executable, and no other', async (t) => {
    // The scripts before their comments are removed.
    const { main, others } = await bundle(temporaryFolder(t), { remarks: true })
    const found = [...new Set([main, ...Object.values(others)].flatMap(packagesIn))]
    assert.ok(found.length > 40, `${found.length} packages found`)
    // The viewer is embedded as it comes, gzipped; test/http/pages.heavy.test.ts compares it.
    assert.deepEqual([...new Set(packages.map(nameOf))].sort(), [...found, VIEWER].sort())
    const notice = readFileSync(join(DIST, 'LICENSES.txt'), 'utf8')
    assert.match(notice, /SmartBear[\s\S]*DOMPurify/, 'whose work is in the viewer')
    for (const one of packages) assert.ok(notice.includes(`\n${nameOf(one)} ${one.version} (`), nameOf(one))
  })

  test('each has its version, its licence, and the hash that the lock file has', () => {
    const locked = Object.entries(read(join(ROOT, 'package-lock.json')).packages as Record<string, object>)
    const hashesOf = (name: string): string[] =>
      locked
        .filter(([key]) => key.endsWith(`node_modules/${name}`))
        .map(([, { version, integrity }]: [string, { version?: string; integrity?: string }]) => {
          const hash = Buffer.from((integrity ?? '').replace('sha512-', ''), 'base64').toString('hex')
          return `${version} SHA-512 ${hash}`
        })
    for (const one of packages) {
      const [hash] = one.hashes ?? []
      assert.ok(hashesOf(nameOf(one)).includes(`${one.version} ${hash?.alg} ${hash?.content}`), nameOf(one))
      assert.equal(one.purl, `pkg:npm/${nameOf(one).replace('@', '%40')}@${one.version}`)
      const [terms = { expression: '' }] = one.licenses ?? []
      assert.match('license' in terms ? terms.license.id : terms.expression, /^[(A-Z0]/, nameOf(one))
    }
  })

  test('Node and the libraries inside it are listed, and so is SQLite', () => {
    assert.ok(node)
    assert.deepEqual([node.type, node.name, node.version], ['platform', 'node', process.versions.node])
    const inside = new Map(node.components?.map(({ name, version }) => [name, version]))
    for (const name of ['openssl', 'v8', 'uv', 'llhttp', 'zlib'])
      assert.equal(inside.get(name), process.versions[name], name)
    const driver = packages.find(({ name }) => name === 'better-sqlite3')
    assert.match(driver?.components?.[0]?.purl ?? '', /^pkg:generic\/sqlite@3\.\d+\.\d+$/)
  })

  test('the list is CycloneDX about this very file: each name once, each dependency listed', () => {
    assert.deepEqual([sbom.bomFormat, sbom.specVersion, sbom.version], ['CycloneDX', '1.6', 1])
    const { component } = sbom.metadata
    assert.deepEqual(component.hashes, [{ alg: 'SHA-256', content: OWN_HASH }])
    const all = sbom.components.flatMap((one) => [one, ...(one.components ?? [])])
    const refs = [component, ...all].map((one) => one['bom-ref'])
    assert.deepEqual([...new Set(refs)], refs)
    const direct = sbom.dependencies.find(({ ref }) => ref === component['bom-ref'])?.dependsOn ?? []
    const { dependencies } = read(join(ROOT, 'package.json'))
    const expected = packages.filter((one) => nameOf(one) in dependencies).map((one) => one['bom-ref'])
    for (const ref of expected) assert.ok(direct.includes(ref), ref)
    for (const { ref, dependsOn } of sbom.dependencies)
      for (const known of [ref, ...dependsOn]) assert.ok(refs.includes(known), known)
    const reached = new Set(direct)
    for (const ref of reached)
      for (const next of sbom.dependencies.find((one) => one.ref === ref)?.dependsOn ?? []) reached.add(next)
    assert.deepEqual(
      sbom.components.map((one) => one['bom-ref']).filter((ref) => !reached.has(ref)),
      [],
    )
  })
})

// Whether somebody else can reproduce the executable from the same commit: a second build, as different as possible.

const FOLDERS = ['bin', 'sql', 'src', 'docs', 'deploy']
const FILES = ['README.md', 'CHANGELOG.md', 'package.json', 'package-lock.json', 'tsconfig.json']
const MADE = [`${NAME}.sha256`, `${NAME}.cdx.json`, 'LICENSES.txt']

test('two builds give the same bytes, whatever the folder, the umask, the time zone and the language', (t) => {
  const elsewhere = join(temporaryFolder(t), 'another place')
  mkdirSync(elsewhere)
  for (const part of [...FOLDERS, ...FILES])
    cpSync(join(ROOT, part), join(elsewhere, part), { recursive: true })
  symlinkSync(join(ROOT, 'node_modules'), join(elsewhere, 'node_modules'))
  const env = { PATH: process.env.PATH, TMPDIR: elsewhere, TZ: 'Asia/Tokyo', LANG: 'tr_TR.UTF-8' }
  const build = ['-c', 'umask 000 && exec "$@"', 'sh', process.execPath, join(elsewhere, 'bin/build.ts')]
  execFileSync('sh', build, { cwd: '/', env, stdio: 'pipe' })
  // The first has the hash of the executable, which the build computes from the file itself.
  for (const name of MADE)
    assert.equal(
      readFileSync(join(elsewhere, 'dist', name), 'utf8'),
      readFileSync(join(dirname(EXECUTABLE), name), 'utf8'),
      name,
    )
})

// .ci/audit against a registry on this machine: what it accepts, what it stops at, and its message without an answer.

const SCRIPT = join(import.meta.dirname, '../../.ci/audit')
const BULK = '/-/npm/v1/security/advisories/bulk'

/** Runs the script against a registry that answers the query for vulnerabilities with `answer`, all others with 404. */
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
    pino: [
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
    assert.match(out, /pino[\s\S]*planted/)
  })

  test('a registry that cannot be asked lets it pass, loudly', async (t) => {
    const { code, out, err } = await audit(t, { status: 405, body: {} })
    assert.deepEqual([code, out], [0, ''])
    assert.match(err, /^NOT AUDITED/)
  })
})
