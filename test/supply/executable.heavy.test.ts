// What is in the executable, and what the files beside it say of that.

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { suite, test } from 'node:test'
import { bundle } from '../../bin/bundle.ts'
import { VIEWER } from '../../src/resources.ts'
import { temporaryFolder } from '../support/database.ts'
import { EXECUTABLE } from '../support/process.ts'

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

/** The packages whose code a script has: the bundler writes above each module which file it was. */
function packagesIn(file: string): string[] {
  const remarks = readFileSync(file, 'utf8').matchAll(
    /\/\/ node_modules\/(?:[\w@./-]+\/node_modules\/)?((?:@[\w.-]+\/)?[\w.-]+)\//g,
  )
  return [...remarks].map(([, name = '']) => name)
}

suite('supply chain', () => {
  test('the hash of the executable is beside it', () => {
    assert.equal(readFileSync(`${EXECUTABLE}.sha256`, 'utf8'), `${OWN_HASH}  ${NAME}\n`)
  })

  test('the list of contents names every package whose code is in the executable, and no other', async (t) => {
    // The same scripts, as they are before the remarks go.
    const { main, others } = await bundle(temporaryFolder(t), { remarks: true })
    const found = [...new Set([main, ...Object.values(others)].flatMap(packagesIn))]
    assert.ok(found.length > 40, `${found.length} packages found`)
    // The viewer is embedded as it comes, gzipped; test/http/docs-page.heavy.test.ts compares it.
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
      assert.match('license' in terms ? terms.license.id : terms.expression, /^[(A-Z]/, nameOf(one))
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
