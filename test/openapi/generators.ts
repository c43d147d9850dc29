// Programs of others that read the API description, generators of clients and Spectral: how each is installed and run.
// Their packages are listed in fixtures/generators/, with a lock file: they are many, and nothing else uses them.

import { execFile } from 'node:child_process'
import { hash } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'

const ROOT = join(import.meta.dirname, '../..')
const KEPT = join(ROOT, 'dist/.generators')
/** The lists of packages, and the programs that use the generated clients. */
export const PROGRAMS = join(ROOT, 'fixtures/generators')

/** How each generator makes a client of openapi.json, and which program becomes its client.ts. */
export const GENERATORS: Record<string, { command: readonly [string, ...string[]]; client: string }> = {
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
export async function run(
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
export async function installGenerators(): Promise<string> {
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

export type Problem = { code: string; path: (string | number)[] }

/** The places of Spectral's problems, each once: the operation if one is about it, otherwise the name of the field. */
export const placesOf = (problems: readonly Problem[]): string[] =>
  [...new Set(problems.map(({ path }) => placeOf(path.map(String))))].sort()

function placeOf(path: readonly string[]): string {
  const [, route = '', method = '', member] = path
  if (path[0] === 'paths' && member === 'responses' && path.length === 4)
    return `${method.toUpperCase()} ${route.replace('/partner/v1', '')}`
  return path.at(-1) ?? ''
}
