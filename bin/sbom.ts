// The list of all that is in an executable, for programs that look up known weaknesses: CycloneDX 1.6, as JSON.
//
// It holds no time and no random number, so that two builds give the same list.

import { readFileSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { VIEWER } from '../src/resources.ts'
import { manifestOf } from './bundle.ts'
import { sqliteVersion } from './licences.ts'

const ROOT = join(import.meta.dirname, '..')

type Names = Record<string, string>
type Locked = { integrity?: string; dependencies?: Names; optionalDependencies?: Names }
type Component = { type: string; 'bom-ref': string; name: string; version: string } & Record<string, unknown>

/** What the executable is called and hashes to, the folders bundled into it, and the npm package of its Node. */
type Contents = { name: string; sha256: string; bundled: readonly string[]; nodePackage: string | null }

/** The text of the list. Throws when a bundled package is not in the lock file, or has no hash there. */
export function billOfMaterials({ name, sha256, bundled, nodePackage }: Contents): string {
  const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  const locked: Record<string, Locked> = JSON.parse(
    readFileSync(join(ROOT, 'package-lock.json'), 'utf8'),
  ).packages
  const keys = bundled.map((folder) => relative(ROOT, folder).split(sep).join('/'))
  const refs = new Map(keys.map((key) => [key, purl(manifestOf(join(ROOT, key)))]))
  // The same version of a package may be installed in several folders.
  const listed = [...new Map(keys.map((key) => [refs.get(key), key])).values()]
  const node = nodeComponent(nodePackage, locked)
  const root = `${manifest.name}@${manifest.version}`
  const refsOf = (key: string, { dependencies, optionalDependencies }: Locked = {}): string[] =>
    Object.keys({ ...dependencies, ...optionalDependencies })
      .map((dependency) => refs.get(installedFor(key, dependency, refs)))
      .filter((ref) => ref !== undefined)
  const list = {
    $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: {
      lifecycles: [{ phase: 'build' }],
      component: {
        type: 'application',
        'bom-ref': root,
        name: manifest.name,
        version: manifest.version,
        description: `the executable ${name}`,
        hashes: [{ alg: 'SHA-256', content: sha256 }],
      },
    },
    components: [node, ...listed.map((key) => packageComponent(key, locked))],
    dependencies: [
      { ref: root, dependsOn: [node['bom-ref'], ...refsOf('', manifest)] },
      ...listed.map((key) => ({ ref: refs.get(key), dependsOn: refsOf(key, locked[key]) })),
    ],
    compositions: [
      { aggregate: 'complete', assemblies: [root] },
      // It comes as one script: LICENSES.txt names what is in it, without versions.
      { aggregate: 'incomplete', assemblies: [refs.get(`node_modules/${VIEWER}`)] },
    ],
  }
  return `${JSON.stringify(list, null, 2)}\n`
}

function packageComponent(key: string, locked: Record<string, Locked>): Component {
  const { name, version, license } = manifestOf(join(ROOT, key))
  const [last = '', group] = name.split('/').reverse()
  const terms = String(license)
  return {
    type: 'library',
    'bom-ref': purl({ name, version }),
    ...(group && { group }),
    name: last,
    version,
    hashes: [lockedHash(key, locked)],
    licenses: [terms.includes(' ') ? { expression: terms } : { license: { id: terms } }],
    purl: purl({ name, version }),
    ...(name === 'better-sqlite3' && { components: [sqlite(key)] }),
  }
}

/** In the addon of better-sqlite3, in the public domain. */
function sqlite(driver: string): Component {
  const version = sqliteVersion([join(ROOT, driver)])
  const ref = `pkg:generic/sqlite@${version}`
  const licenses = [{ license: { id: 'blessing' } }]
  return { type: 'library', 'bom-ref': ref, name: 'sqlite', version, licenses, purl: ref }
}

/** Numbers of interfaces and standards, which `process.versions` lists beside the libraries. */
const NO_LIBRARIES = ['node', 'modules', 'napi', 'unicode']
/** Libraries inside Node that come from npm. */
const FROM_NPM = ['acorn', 'amaro', 'undici']

/** Node with the libraries linked into it; another system's Node of the same version has the same. */
function nodeComponent(nodePackage: string | null, locked: Record<string, Locked>): Component {
  const version = process.versions.node
  const libraries = Object.entries(process.versions).filter(
    (entry): entry is [string, string] => Boolean(entry[1]) && !NO_LIBRARIES.includes(entry[0]),
  )
  return {
    type: 'platform',
    'bom-ref': `node@${version}`,
    name: 'node',
    version,
    description: 'the Node.js runtime; LICENSES.txt has the licences of the libraries inside it',
    ...(nodePackage && { hashes: [lockedHash(`node_modules/${nodePackage}`, locked)] }),
    licenses: [{ license: { id: 'MIT' } }],
    cpe: `cpe:2.3:a:nodejs:node.js:${version}:*:*:*:*:*:*:*`,
    purl: nodePackage ? purl({ name: nodePackage, version }) : `pkg:generic/node@${version}`,
    components: libraries.map(([name, inner]) => ({
      type: 'library',
      'bom-ref': `node/${name}@${inner}`,
      name,
      version: inner,
      purl: FROM_NPM.includes(name) ? purl({ name, version: inner }) : `pkg:generic/${name}@${inner}`,
    })),
  }
}

const purl = ({ name, version }: { name: string; version: string }): string =>
  `pkg:npm/${name.replace('@', '%40')}@${version}`

function lockedHash(key: string, locked: Record<string, Locked>): { alg: string; content: string } {
  const [, base64] = /^sha512-(\S+)$/.exec(locked[key]?.integrity ?? '') ?? []
  if (base64 === undefined) throw new Error(`package-lock.json has no SHA-512 of ${key}`)
  return { alg: 'SHA-512', content: Buffer.from(base64, 'base64').toString('hex') }
}

/** Where Node finds a dependency of the package at `key`: the nearest folder above it that has one. */
function installedFor(key: string, dependency: string, known: ReadonlyMap<string, unknown>): string {
  for (let at = key; ; at = at.slice(0, Math.max(0, at.lastIndexOf('/node_modules/')))) {
    const found = `${at === '' ? '' : `${at}/`}node_modules/${dependency}`
    if (known.has(found) || at === '') return found
  }
}
