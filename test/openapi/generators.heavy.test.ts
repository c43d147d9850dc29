// Other generators on the API description: their clients compile under strict rules and talk to a real serve; and
// Spectral's findings.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { hash } from 'node:crypto'
import {
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { before, suite, type TestContext, test } from 'node:test'
import { promisify } from 'node:util'
import { build } from 'esbuild'
import { temporaryFolder } from '../support/database.ts'
import { startServe } from '../support/process.ts'
import { withKey } from '../support/service.ts'
import { DESCRIPTION } from './described.ts'

const ROOT = join(import.meta.dirname, '../..')
const SECURITY = readFileSync(join(ROOT, 'docs/security.md'), 'utf8')
/** Where the description breaks a rule of OWASP's that is not about every answer. */
const BROKEN_AT = {
  'owasp:api4:2023-string-restricted': [
    'detail',
    'failure_reason',
    'last_failure_reason',
    'msg',
    'partner_name',
  ],
  'owasp:api8:2023-define-error-validation': [
    'DELETE /webhooks',
    'GET /executions/due',
    'GET /me',
    'GET /plans/{partner_plan_id}',
    'GET /sandbox',
    'GET /users/{partner_user_id}',
    'GET /webhooks',
    'GET /webhooks/deliveries',
  ],
}
const KEPT = join(ROOT, 'dist/.generators')
/** The lists of packages, with a lock file, and the programs that use the generated clients. */
const PROGRAMS = join(ROOT, 'fixtures/generators')

/** How each generator makes a client of openapi.json, and which program becomes its client.ts. */
const GENERATORS: Record<string, { command: readonly [string, ...string[]]; client: string }> = {
  '@hey-api/openapi-ts': {
    command: ['openapi-ts', '-i', 'openapi.json', '-o', 'made'],
    client: 'hey-api.ts',
  },
  'openapi-zod-client': {
    command: ['openapi-zod-client', 'openapi.json', '-o', 'made.ts'],
    client: 'zod-client.ts',
  },
  orval: { command: ['orval', '--config', 'orval.config.mjs'], client: 'orval.ts' },
}

const execute = promisify(execFile)
/** With the Node of the tests first on PATH, because the packages require a new one. */
const ENV = { ...process.env, PATH: `${dirname(process.execPath)}:${process.env.PATH}` }

/** Runs a program, and resolves with its output. Throws its messages when it fails. */
async function run(
  file: string,
  args: readonly string[],
  { cwd, env = {} }: { cwd: string; env?: Record<string, string> },
): Promise<string> {
  try {
    const options = { cwd, env: { ...ENV, ...env }, maxBuffer: 64 * 1024 * 1024 }
    return (await execute(file, args, options)).stdout
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string }
    throw new Error(`${file} ${args.join(' ')}\n${stdout}${stderr}`, { cause: error })
  }
}

/** Installs the packages from the registry, once for each lock file. Resolves with the folder that has them. */
async function installGenerators(): Promise<string> {
  const folder = join(KEPT, hash('sha256', readFileSync(join(PROGRAMS, 'package-lock.json'))))
  if (existsSync(folder)) return folder
  const aside = `${folder}.${process.pid}`
  mkdirSync(aside, { recursive: true })
  for (const name of ['package.json', 'package-lock.json']) cpSync(join(PROGRAMS, name), join(aside, name))
  cpSync(join(ROOT, '.npmrc'), join(aside, '.npmrc'))
  try {
    await run('npm', ['ci', '--prefer-offline', '--no-progress'], { cwd: aside })
    renameSync(aside, folder)
  } finally {
    rmSync(aside, { recursive: true, force: true })
  }
  return folder
}

type Problem = { code: string; path: (string | number)[] }

/** The places of Spectral's problems, each once: the operation if one is about it, otherwise the name of the field. */
const placesOf = (problems: readonly Problem[]): string[] =>
  [...new Set(problems.map(({ path }) => placeOf(path.map(String))))].sort()

function placeOf(path: readonly string[]): string {
  const [, route = '', method = '', member] = path
  if (path[0] === 'paths' && member === 'responses' && path.length === 4)
    return `${method.toUpperCase()} ${route.replace('/partner/v1', '')}`
  return path.at(-1) ?? ''
}

/** The compiler's strict options, and array members that may be missing. */
const RULES =
  '--noEmit --strict --noUncheckedIndexedAccess --target esnext --module preserve --moduleResolution bundler ' +
  '--skipLibCheck --lib esnext,dom,dom.iterable'

/** The folder that has the packages; null where the registry cannot be reached. */
let packages: string | null = null

/** A folder with the packages, the programs and a description; null without packages, which the output reports. */
function workshop(t: TestContext, description: unknown): string | null {
  if (packages === null) {
    t.diagnostic('NOT TESTED: the registry does not give the generators')
    return null
  }
  const folder = temporaryFolder(t)
  cpSync(PROGRAMS, folder, { recursive: true })
  symlinkSync(join(packages, 'node_modules'), join(folder, 'node_modules'))
  writeFileSync(join(folder, 'openapi.json'), JSON.stringify(description))
  return folder
}

/** Makes a client of the description by this generator, and compiles its program. Throws the compiler's errors. */
async function makeClient(folder: string, { command, client }: (typeof GENERATORS)[string]): Promise<void> {
  const programs = join(folder, 'node_modules/.bin')
  const [generator, ...args] = command
  await run(join(programs, generator), args, { cwd: folder })
  cpSync(join(folder, client), join(folder, 'client.ts'))
  await run(join(programs, 'tsc'), [...RULES.split(' '), 'main.ts'], { cwd: folder })
}

/** Spectral's findings by one of its rule sets; null when it is not installed. */
async function lint(t: TestContext, rules: 'oas' | 'owasp', description: unknown): Promise<Problem[] | null> {
  const cwd = workshop(t, description)
  return cwd === null ? null : JSON.parse(await run(process.execPath, ['lint.mjs', rules], { cwd }))
}

suite('the API description, to programs of others', () => {
  before(async () => {
    packages = await installGenerators().catch((error: Error) => {
      assert.ok(!process.env.CI, `CI must install the generators: ${error.message}`)
      return null
    })
  })

  for (const [name, generator] of Object.entries(GENERATORS)) {
    test(`${name} makes a client that compiles strictly and talks to the service`, async (t) => {
      const folder = workshop(t, DESCRIPTION)
      if (folder === null) return
      await makeClient(folder, generator)
      await build({
        absWorkingDir: folder,
        entryPoints: ['main.ts'],
        outfile: join(folder, 'main.mjs'),
        bundle: true,
        platform: 'node',
        format: 'esm',
        // axios is CommonJS, and loads Node's own modules by require.
        banner: {
          js: `import { createRequire } from 'node:module'; const require = createRequire(import.meta.url)`,
        },
      })
      const { cwd, key } = await withKey(t)
      const { url } = await startServe(t, ['--webhook-allow-cidr', '127.0.0.0/8'], { cwd })
      const env = { TRANCHE_URL: url, KEY: key }
      assert.deepEqual(JSON.parse(await run(process.execPath, ['main.mjs'], { cwd: folder, env })), {
        slug: 'acme',
        user: 'linked',
        before: null,
        after: 'active',
        plan: 'daily',
        due: 0,
        refused: 'Execution not found.',
      })
    })
  }

  test("Spectral's rules for OpenAPI are met", async (t) => {
    const found = await lint(t, 'oas', DESCRIPTION)
    if (found) assert.deepEqual(found, [])
  })

  test("each of OWASP's rules is met, or docs/security.md says why not, and it is broken only here", async (t) => {
    const problems = await lint(t, 'owasp', DESCRIPTION)
    if (!problems) return
    const told = [...SECURITY.matchAll(/^\| `(owasp:\S+)` \| .{20,} \|$/gm)].map(([, rule]) => rule)
    const broken = Map.groupBy(problems, ({ code }) => code)
    assert.deepEqual(told.sort(), [...broken.keys()].sort())
    for (const [rule, places] of Object.entries(BROKEN_AT))
      assert.deepEqual(placesOf(broken.get(rule) ?? []), places, rule)
  })
})
